"""Record files: TFRecord framing, gzip members, and the protobuf wire of Example and SequenceExample.

Everything here goes straight from and to NumPy arrays; no protobuf runtime is involved, because a
runtime decides the order of the features by itself and costs a Python object a value.
"""
