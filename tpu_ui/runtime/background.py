"""A program that is compiled in the background, and what stands in for its results until then.

Tracing is Python and takes turns; XLA's work needs no Python. So the programs of an image are all
traced first, in a run of the pipeline in which they give ones, and compile side by side.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.registry import lookup_backend

NAME_MARK = "tt_jit_"  # what torch_tpu's own names of programs begin with


class Background:
    """A backend for one `torch.compile` that hands the graph to torch_tpu and does not wait.

    The function that comes of it gives ones, in the form of the program's results, until `wait`.
    torch_tpu 0.2.0's `async_compile`, and a private exception of it. What torch_tpu calls the
    program begins with `name`. Without `puts_off`, and by another compiler than torch_tpu's, it is
    compiled at once.
    """

    def __init__(self, compiler: str, name: str, *, puts_off: bool) -> None:
        self.name = name
        self._compiler = compiler
        self._puts_off = puts_off
        self._submitted: Any = None

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor], **_: Any
    ) -> Callable[..., Any]:
        from torch_tpu._internal.compile._backend import (  # noqa: PLC0415 - private
            AsyncCompilationSubmitted,
        )

        compiler: Any = lookup_backend(self._compiler)
        if not self._puts_off or self._compiler != "tpu":
            return compiler(graph, list(inputs))  # type: ignore[no-any-return]
        (output,) = graph.graph.find_nodes(op="output")
        forms = [one.meta["example_value"] for one in output.args[0]]
        options = {"async_compile": True, "name": NAME_MARK + self.name}
        run = compiler(graph, list(inputs), options=options)
        try:
            run()  # the first call tells what was submitted, and runs nothing
        except AsyncCompilationSubmitted as submitted:
            self._submitted = submitted

        def call(*args: torch.Tensor) -> Any:
            return run(*args) if self._submitted is None else [_ones(form) for form in forms]

        call.serialize = run.serialize  # type: ignore[attr-defined]
        return call

    def compiling(self) -> bool:
        """Whether the program has been submitted and is not compiled yet."""
        if self._submitted is None:
            return False
        # torch_tpu tells of it through private attributes alone. A program is in one piece or more.
        whole = self._submitted.artifact
        pieces = getattr(whole, "compiled_executables", (whole,))
        futures = (getattr(piece, "_future", None) for piece in pieces)
        return any(future is not None and not future.done() for future in futures)

    def wait(self) -> None:
        """Wait for the program, and run it from now on. Raises what the compiler raises."""
        if self._submitted is not None:
            self._submitted.resolve()
            self._submitted = None


def _ones(form: torch.Tensor) -> torch.Tensor:
    """Made on the host: on the device they would be part of other programs. Not zeros: pipelines
    divide by the norm of a result."""
    ones = torch.empty_strided(form.size(), form.stride(), dtype=form.dtype).fill_(1)
    return ones.to(form.device)
