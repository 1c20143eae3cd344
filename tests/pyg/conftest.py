import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PyG 2.8 calls torch.jit.script when it is imported
    import torch_geometric  # noqa: F401
