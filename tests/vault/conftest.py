from tests.support.engine_harness import bench

__all__ = ["bench"]
