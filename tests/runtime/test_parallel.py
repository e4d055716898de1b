"""The thread pool: every block and item exactly once, errors get through, and the pool survives them."""

import os
import threading
import time

import joblib
import numpy as np
import pytest

from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers, available_cores, count_blocks, resolve_n_jobs

THREADS = [1, 2, 3, 4]


class Broken(Exception):
    pass


@pytest.mark.parametrize(
    ("n_rows", "blocks"), [(0, 0), (1, 1), (ROWS_PER_BLOCK, 1), (ROWS_PER_BLOCK + 1, 2), (10 * ROWS_PER_BLOCK, 10)]
)
def test_count_blocks(n_rows, blocks):
    assert count_blocks(n_rows) == blocks


class TestThreadCounts:
    @pytest.fixture(autouse=True)
    def _no_limit(self, monkeypatch):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def test_none_and_minus_one_are_every_core(self):
        assert resolve_n_jobs(None) == resolve_n_jobs(-1) == available_cores() >= 1

    def test_negative_numbers_leave_cores_free(self, monkeypatch):
        monkeypatch.setattr("abc_plugins.core.runtime.parallel.available_cores", lambda: 8)
        assert [resolve_n_jobs(n) for n in (-1, -2, -8, -9, -100)] == [8, 7, 1, 1, 1]

    def test_positive_numbers_are_taken_as_they_are(self):
        assert [resolve_n_jobs(n) for n in (1, 2, 64)] == [1, 2, 64]

    @pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
    def test_the_affinity_mask_counts(self):
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {min(before)})
            assert available_cores() == resolve_n_jobs(None) == 1
        finally:
            os.sched_setaffinity(0, before)

    @pytest.mark.parametrize(("text", "threads"), [("3", 3), ("2,1", 2), ("100", 8), ("0", 8), ("many", 8), ("", 8)])
    def test_the_limit_of_openmp_counts(self, monkeypatch, text, threads):
        monkeypatch.setattr("abc_plugins.core.runtime.parallel.available_cores", lambda: 8)
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert (resolve_n_jobs(None), resolve_n_jobs(-1), resolve_n_jobs(5)) == (threads, 8, 5)

    def test_joblib_decides_for_those_who_ask_for_nothing(self, monkeypatch):
        monkeypatch.setattr("abc_plugins.core.runtime.parallel.available_cores", lambda: 8)
        with joblib.parallel_config(backend="threading", n_jobs=3):
            assert (resolve_n_jobs(None), resolve_n_jobs(5)) == (3, 5)
            inside = joblib.Parallel()(joblib.delayed(resolve_n_jobs)(n_jobs) for n_jobs in (None, 5))
        assert inside == [1, 5]
        with joblib.parallel_config(n_jobs=-2):
            assert resolve_n_jobs(None) == 7


class TestOverRows:
    @pytest.mark.parametrize("n_threads", THREADS)
    @pytest.mark.parametrize("n_blocks", [0, 1, 2, 3, 7])
    def test_every_block_once_in_contiguous_shares(self, n_threads, n_blocks):
        calls = []
        with Workers(n_threads) as workers:
            workers.over_rows(n_blocks * ROWS_PER_BLOCK, lambda first, last: calls.append((first, last)))
        assert len(calls) == min(n_threads, n_blocks)
        assert sorted(b for first, last in calls for b in range(first, last)) == list(range(n_blocks))
        assert all(first < last for first, last in calls)

    @pytest.mark.parametrize("n_threads", THREADS)
    def test_partial_sums_are_the_same(self, n_threads):
        values = np.random.default_rng(0).normal(size=7 * ROWS_PER_BLOCK + 5)

        def total(threads):
            sums = np.zeros(count_blocks(values.size))

            def work(first, last):
                for block in range(first, last):
                    sums[block] = values[block * ROWS_PER_BLOCK : (block + 1) * ROWS_PER_BLOCK].sum()

            with Workers(threads) as workers:
                workers.over_rows(values.size, work)
            return sums.sum()

        assert total(n_threads) == total(1)


class TestOverItems:
    @pytest.mark.parametrize("n_threads", THREADS)
    @pytest.mark.parametrize("items", [[], ["a"], list("abcdefghij"), range(1000)])
    def test_every_item_once(self, n_threads, items):
        seen = []
        with Workers(n_threads) as workers:
            workers.over_items(items, lambda item, _: seen.append(item))
        assert sorted(seen) == sorted(items)

    @pytest.mark.parametrize("n_threads", THREADS)
    def test_a_thread_number_is_never_used_twice_at_a_time(self, n_threads):
        busy = [threading.Lock() for _ in range(n_threads)]

        def work(_item, thread):
            assert busy[thread].acquire(blocking=False)
            time.sleep(1e-4)
            busy[thread].release()

        with Workers(n_threads) as workers:
            workers.over_items(range(200), work)

    @pytest.mark.parametrize("n_threads", [1, 2, 5])
    def test_what_follows_comes_in_order_and_after_the_work(self, n_threads):
        done, followed, busy = set(), [], threading.Lock()

        def work(item, _):
            time.sleep(1e-4 * (item % 3))
            done.add(item)

        def follow(item):
            assert busy.acquire(blocking=False)  # never two at once
            assert item in done
            followed.append(item)
            time.sleep(1e-4)
            busy.release()

        with Workers(n_threads) as workers:
            workers.over_items(range(100), work, in_order=follow)
        assert followed == list(range(100))

    @pytest.mark.parametrize("n_threads", [1, 3])
    def test_an_error_in_what_follows_gets_through(self, n_threads):
        followed = []

        def follow(item):
            followed.append(item)
            if item == 7:
                raise OSError("seven")

        with Workers(n_threads) as workers, pytest.raises(OSError, match="seven"):
            workers.over_items(range(20), lambda *_: time.sleep(1e-4), in_order=follow)
        assert followed == list(range(8))

    def test_the_work_goes_on_while_something_follows(self):
        last_is_done = threading.Event()

        def work(item, _):
            if item == 3:
                last_is_done.set()

        with Workers(2) as workers:
            workers.over_items(
                range(4), work, in_order=lambda item: item or last_is_done.wait(60) or pytest.fail("waited")
            )

    def test_threads_really_work_side_by_side(self):
        # Each of the two items waits for the other one: on a single thread the barrier would break.
        barrier = threading.Barrier(2, timeout=30)
        with Workers(2) as workers:
            workers.over_items([0, 1], lambda *_: barrier.wait())
        assert not barrier.broken

    def test_one_thread_works_where_it_is_called(self):
        names = set()
        with Workers(1) as workers:
            workers.over_items(range(5), lambda *_: names.add(threading.current_thread().name))
        assert names == {threading.current_thread().name}


class TestErrors:
    @pytest.mark.parametrize("n_threads", THREADS)
    @pytest.mark.parametrize("bad", [0, 1, 99])
    def test_an_error_gets_through_and_the_pool_stays_usable(self, n_threads, bad):
        def work(item, _thread):
            if item == bad:
                raise Broken(f"item {item}")

        with Workers(n_threads) as workers:
            for _ in range(3):
                with pytest.raises(Broken, match=f"item {bad}"):
                    workers.over_items(range(100), work)
            seen = []
            workers.over_items(range(100), lambda item, _: seen.append(item))
            assert sorted(seen) == list(range(100))

    @pytest.mark.parametrize("n_threads", THREADS)
    def test_an_error_in_any_share_of_rows_gets_through(self, n_threads):
        def fail_at(block):
            def work(first, last):
                if first <= block < last:
                    raise Broken(f"block {block}")

            return work

        with Workers(n_threads) as workers:
            for block in range(6):
                with pytest.raises(Broken, match=f"block {block}"):
                    workers.over_rows(6 * ROWS_PER_BLOCK, fail_at(block))

    def test_nothing_runs_any_more_once_an_error_is_raised(self):
        running = threading.Event()
        finished = []

        def work(_item, thread):
            if thread == 0:  # the calling thread
                running.wait(30)
                raise Broken("caller")
            running.set()
            time.sleep(0.05)
            finished.append(thread)

        with Workers(2) as workers:
            with pytest.raises(Broken, match="caller"):
                workers.over_items([0, 1], work)
            assert finished == [1]


@pytest.mark.parametrize("n_threads", THREADS)
def test_closing_ends_the_threads_and_leaves_the_calling_one(n_threads):
    before = threading.active_count()
    workers = Workers(n_threads)
    workers.over_items(range(50), lambda *_: time.sleep(1e-4))
    workers.close()
    workers.close()
    assert threading.active_count() == before
    names = set()
    workers.over_items(range(5), lambda *_: names.add(threading.current_thread().name))
    assert names == {threading.current_thread().name}
