from collections.abc import Sequence
from typing import Any, Literal

__all__ = ["Group", "ParallelMatmul"]

class Group:
    rank: int
    world: int
    def __init__(
        self, rank: int, world: int, address: str, *, device: str | None = None, timeout: float = 60.0
    ) -> None: ...
    @classmethod
    def from_torch(cls, group: Any = None, *, device: str | None = None, timeout: float = 60.0) -> Group: ...
    def explain(self) -> str: ...
    def wait(self, stream: int | None = None) -> None: ...

class ParallelMatmul:
    def __init__(
        self,
        group: Group,
        form: Literal["all_gather", "reduce_scatter", "all_reduce"],
        extents: tuple[int, int, int],
        *,
        dtype: Any = "bfloat16",
        shards: Sequence[int] | None = None,
    ) -> None: ...
    def explain(self) -> str: ...
    def __call__(self, a: Any, b: Any, *, out: Any = None, stream: int | None = None) -> Any: ...
