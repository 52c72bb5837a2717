"""Questions from every corner, judged by references in ball arithmetic, by laws and by `Exact`.

It stands beside the library and is not part of the wheel. Run it as `python -m fuzz` or `make fuzz`.
"""
