"""A model as files: ``config.json`` describes it, ``model.safetensors`` holds its weights. There are no pickles.

- ``save``: writes the two files, and defines their names, fields and checksums.
- ``config``: objects as JSON, a class name and the arguments of its constructor, and back.
- ``constructor``: recovers these arguments from an object.
- ``layers``: the layers of torch that a configuration may name.
- ``weights``: reads the weights after checking their header.

:mod:`tauleap.pretrained` finds and loads models; :mod:`tauleap.training.checkpoint` lists the files of a checkpoint.
"""
