"""Loops over rows of float64 as vector instructions.

LLVM turns a loop into vector instructions of 16 numbers at a time, and does what is left one by one: all of it, where
rows are short. Rows here have a multiple of `LANES` numbers, and everything is done `LANES` at a time.

Arrays are C-contiguous and of one dimension; `at` is where a row begins. Nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 4
"""Numbers of a vector; the length of a row is a multiple of it."""

_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_INT32 = ir.IntType(32)


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [value] * LANES)


def _spread(builder: Any, value: Any) -> Any:
    """A vector of one number."""
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, value, _INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES))


def _total(builder: Any, vector: Any) -> Any:
    """The sum of the numbers of a vector, neighbours first."""
    parts = [builder.extract_element(vector, _INT32(lane)) for lane in range(LANES)]
    while len(parts) > 1:
        parts = [builder.fadd(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]
    return parts[0]


def _scaled(builder: Any, vector: Any, scale: Any, least: Any) -> Any:
    """Multiply, and raise what is smaller to `least`."""
    scaled = builder.fmul(vector, scale)
    return builder.select(builder.fcmp_ordered(">", scaled, least), scaled, least)


class _Row:
    """A row of an array, `LANES` numbers at a time."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any, at: Any) -> None:
        self._builder = builder
        data = context.make_array(kind)(context, builder, array).data
        self._start = builder.gep(data, [at])

    def _pointer(self, k: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(self._start, [k]), _VECTOR.as_pointer())

    def load(self, k: Any) -> Any:
        return self._builder.load(self._pointer(k), align=8)

    def store(self, k: Any, vector: Any) -> None:
        self._builder.store(vector, self._pointer(k), align=8)

    def load_one(self, k: Any) -> Any:
        return self._builder.load(self._builder.gep(self._start, [k]))

    def store_one(self, k: Any, number: Any) -> None:
        self._builder.store(number, self._builder.gep(self._start, [k]))


def _for_vectors(builder: Any, width: Any, body: Callable[[Any], None]) -> None:
    """Call `body(k)` for every multiple k of `LANES` below the width of a row."""
    with cgutils.for_range(builder, builder.udiv(width, width.type(LANES))) as loop:
        body(builder.mul(loop.index, width.type(LANES)))


@intrinsic
def add_row(typing_context: Any, rows: Any, at: Any, terms: Any, terms_at: Any, width: Any) -> Any:  # noqa: ARG001
    """Add another row to a row; this one may have any number of numbers."""
    signature = types.void(rows, types.int64, terms, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _Row(context, builder, signature.args[0], arguments[0], arguments[1])
        term = _Row(context, builder, signature.args[2], arguments[2], arguments[3])
        width = arguments[4]
        _for_vectors(builder, width, lambda k: row.store(k, builder.fadd(row.load(k), term.load(k))))
        done = builder.mul(builder.udiv(width, width.type(LANES)), width.type(LANES))
        with cgutils.for_range(builder, builder.sub(width, done)) as loop:
            k = builder.add(done, loop.index)
            row.store_one(k, builder.fadd(row.load_one(k), term.load_one(k)))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def multiply_row(typing_context: Any, rows: Any, at: Any, factors: Any, factors_at: Any, width: Any) -> Any:  # noqa: ARG001
    """Multiply a row by another one; return the sum of the products."""
    signature = types.float64(rows, types.int64, factors, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _Row(context, builder, signature.args[0], arguments[0], arguments[1])
        factor = _Row(context, builder, signature.args[2], arguments[2], arguments[3])
        total = cgutils.alloca_once_value(builder, _constant(0.0))

        def multiply(k: Any) -> None:
            product = builder.fmul(row.load(k), factor.load(k))
            row.store(k, product)
            builder.store(builder.fadd(builder.load(total), product), total)

        _for_vectors(builder, arguments[4], multiply)
        return _total(builder, builder.load(total))

    return signature, generate


@intrinsic
def scale_row(typing_context: Any, rows: Any, at: Any, scale: Any, least: Any, width: Any) -> Any:  # noqa: ARG001
    """Multiply a row by a number, and raise what is smaller to `least`."""
    signature = types.void(rows, types.int64, types.float64, types.float64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _Row(context, builder, signature.args[0], arguments[0], arguments[1])
        scale, least = _spread(builder, arguments[2]), _spread(builder, arguments[3])

        def multiply(k: Any) -> None:
            row.store(k, _scaled(builder, row.load(k), scale, least))

        _for_vectors(builder, arguments[4], multiply)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_newton_terms(
    typing_context: Any,  # noqa: ARG001
    rows: Any,
    at: Any,  # noqa: ARG001
    scale: Any,  # noqa: ARG001
    least: Any,  # noqa: ARG001
    label: Any,  # noqa: ARG001
    weight: Any,  # noqa: ARG001
    sums: Any,
    sums_at: Any,  # noqa: ARG001
    width: Any,  # noqa: ARG001
) -> Any:
    """Scale a row to p as `scale_row` does; add w (r - p) to a row of `sums`, and w p (1 - p) to the next one.

    r is 1 for the label and 0 for other classes.
    """
    number, index = types.float64, types.int64
    signature = types.void(rows, index, number, number, index, number, sums, index, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _Row(context, builder, signature.args[0], arguments[0], arguments[1])
        label, width = arguments[4], arguments[8]
        first, second = (
            _Row(context, builder, signature.args[6], arguments[6], place)
            for place in (arguments[7], builder.add(arguments[7], width))
        )
        scale, least, weight = (_spread(builder, arguments[i]) for i in (2, 3, 5))
        indices = ir.VectorType(label.type, LANES)
        labels = _spread(builder, label)

        def add(k: Any) -> None:
            p = _scaled(builder, row.load(k), scale, least)
            row.store(k, p)
            weighted = builder.fmul(weight, p)
            # Not added to the sum afterwards: a vector that was just written to in part takes long to load.
            classes = builder.add(_spread(builder, k), ir.Constant(indices, list(range(LANES))))
            is_label = builder.icmp_signed("==", classes, labels)
            residual = builder.fsub(builder.select(is_label, weight, _constant(0.0)), weighted)
            first.store(k, builder.fadd(first.load(k), residual))
            curvature = builder.fmul(weighted, builder.fsub(_constant(1.0), p))
            second.store(k, builder.fadd(second.load(k), curvature))

        _for_vectors(builder, width, add)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def moments(typing_context: Any, rows: Any, at: Any, values: Any, values_at: Any, origin: Any, width: Any) -> Any:  # noqa: ARG001
    """For rows p and v return sum p (v - origin) and sum p (v - origin)**2."""
    signature = types.containers.UniTuple(types.float64, 2)(
        rows, types.int64, values, types.int64, types.float64, types.int64
    )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _Row(context, builder, signature.args[0], arguments[0], arguments[1])
        value = _Row(context, builder, signature.args[2], arguments[2], arguments[3])
        origin = _spread(builder, arguments[4])
        totals = [cgutils.alloca_once_value(builder, _constant(0.0)) for _ in range(2)]

        def add(k: Any) -> None:
            difference = builder.fsub(value.load(k), origin)
            first = builder.fmul(row.load(k), difference)
            for total, term in zip(totals, (first, builder.fmul(first, difference)), strict=True):
                builder.store(builder.fadd(builder.load(total), term), total)

        _for_vectors(builder, arguments[5], add)
        results = [_total(builder, builder.load(total)) for total in totals]
        return context.make_tuple(builder, signature.return_type, results)

    return signature, generate


@intrinsic
def set_derivatives(
    typing_context: Any,  # noqa: ARG001
    rows: Any,
    at: Any,  # noqa: ARG001
    values: Any,
    values_at: Any,  # noqa: ARG001
    label: Any,  # noqa: ARG001
    weight: Any,  # noqa: ARG001
    z: Any,
    h: Any,
    to: Any,  # noqa: ARG001
    stride: Any,  # noqa: ARG001
    width: Any,  # noqa: ARG001
) -> Any:
    """For a row p and `LANES` rows v write -w m and w (s - m**2), with m and s of `moments` and origins v[label].

    The rows v lie across: their entries of a class are side by side in `values`, which needs no sums over the numbers
    of a vector. The results go to the entries `to`, `to + stride`, ... of `z` and `h`, in float32.
    """
    number, index = types.float64, types.int64
    signature = types.void(rows, index, values, index, index, number, z, h, index, index, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _Row(context, builder, signature.args[0], arguments[0], arguments[1])
        value = _Row(context, builder, signature.args[2], arguments[2], arguments[3])
        label, weight, to, stride, width = (arguments[i] for i in (4, 5, 8, 9, 10))

        def column(k: Any) -> Any:
            return value.load(builder.mul(k, k.type(LANES)))

        origin = column(label)
        means, squares = (cgutils.alloca_once_value(builder, _constant(0.0)) for _ in range(2))
        with cgutils.for_range(builder, width) as loop:
            difference = builder.fsub(column(loop.index), origin)
            first = builder.fmul(_spread(builder, row.load_one(loop.index)), difference)
            builder.store(builder.fadd(builder.load(means), first), means)
            builder.store(builder.fadd(builder.load(squares), builder.fmul(first, difference)), squares)
        mean, weights = builder.load(means), _spread(builder, weight)
        curvature = builder.fsub(builder.load(squares), builder.fmul(mean, mean))
        curvature = builder.select(builder.fcmp_ordered(">", curvature, _constant(0.0)), curvature, _constant(0.0))
        results = builder.fmul(weights, builder.fsub(_constant(0.0), mean)), builder.fmul(weights, curvature)
        for kind, array, result in zip(signature.args[6:8], arguments[6:8], results, strict=True):
            numbers = builder.fptrunc(result, ir.VectorType(ir.FloatType(), LANES))
            data = context.make_array(kind)(context, builder, array).data
            for lane in range(LANES):
                place = builder.add(to, builder.mul(stride, stride.type(lane)))
                builder.store(builder.extract_element(numbers, _INT32(lane)), builder.gep(data, [place]))
        return context.get_dummy_value()

    return signature, generate
