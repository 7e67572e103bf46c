"""Everything that is both torch and this package: models, arguments, extractors and policies in both, and ONNX files."""
