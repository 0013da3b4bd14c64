"""Preloads the rules of all adapters into programs that use one: adapter/README.md."""

import os

library = None  # conftest.py sets it


def environment(*behind, off=()):
    """Of a program that is ended when it breaks a rule. `behind`: libraries to preload, too; `off`: rules that it
    breaks on purpose."""
    if not os.path.exists(library):
        raise FileNotFoundError(f"{library} is not built: cmake --build build --target strict")
    return {"LD_PRELOAD": ":".join([library, *behind]), "STRICT": ",".join(["slow", *(f"-{rule}" for rule in off)])}
