"""Linear algebra on one thread."""

from __future__ import annotations

import threading

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from abc_plugins.core.runtime.blas import one_blas_thread


def threads_of_blas() -> set[int]:
    np.eye(2) @ np.eye(2)
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_inside_and_as_many_as_before_outside() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads_of_blas()
        with one_blas_thread():
            assert threads_of_blas() == {1}
        assert threads_of_blas() == before == {2}


def test_fits_in_several_threads_leave_what_the_first_found() -> None:
    def enter_and_leave() -> None:
        for _ in range(200):
            with one_blas_thread():
                pass

    with threadpool_limits(2, user_api="blas"):
        threads = [threading.Thread(target=enter_and_leave) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert threads_of_blas() == {2}
