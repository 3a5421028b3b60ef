"""Every operator that ONNX Runtime has on the CPU, beside it: `./dev bench operators`."""
