"""Machine instructions that Numba has no name for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from abc_plugins.core.runtime.numba_internals import cgutils, types

_INT32 = ir.IntType(32)
_PAIR = ir.VectorType(ir.IntType(64), 2)
_BYTES = ir.IntType(8).as_pointer()


@intrinsic
def add_to_cell(typing_context: Any, histogram: Any, cell: Any, first: Any, second: Any) -> Any:  # noqa: ARG001
    """Add two int64 to histogram[cell, 0] and histogram[cell, 1], one 16-byte load, addition and store.

    `histogram` is a C-contiguous int64 array of shape (n_cells, 2); `cell` is not checked.
    """
    signature = types.void(histogram, types.uint64, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        amount = builder.insert_element(ir.Constant(_PAIR, ir.Undefined), arguments[2], _INT32(0))
        amount = builder.insert_element(amount, arguments[3], _INT32(1))
        pointer = builder.gep(builder.bitcast(array.data, _PAIR.as_pointer()), [arguments[1]])
        builder.store(builder.add(builder.load(pointer, align=8), amount), pointer, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_cell(typing_context: Any, target: Any, to: Any, source: Any, cell: Any) -> Any:  # noqa: ARG001
    """Add source[cell] to target[to], both of shape (n_cells, 2), like `add_to_cell`."""
    signature = types.void(target, types.uint64, source, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers: list[Any] = []
        for array, index in (arguments[:2], arguments[2:]):
            kind = signature.args[len(pointers) * 2]
            data = context.make_array(kind)(context, builder, array).data
            pointers.append(builder.gep(builder.bitcast(data, _PAIR.as_pointer()), [index]))
        total = builder.add(builder.load(pointers[0], align=8), builder.load(pointers[1], align=8))
        builder.store(total, pointers[0], align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
    """Ask for the cache line of array[index] (first axis); a wrong index does no harm."""
    signature = types.void(array, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        offset = builder.mul(arguments[1], cgutils.unpack_tuple(builder, view.strides)[0])
        pointer = builder.gep(builder.bitcast(view.data, _BYTES), [offset])
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, _INT32, _INT32, _INT32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], kind)
        builder.call(function, [pointer, _INT32(0), _INT32(3), _INT32(1)])  # a read, keep in all caches, data
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:  # noqa: ARG001
    """Number of the lowest bit that is set; the word is not 0."""
    signature = types.int64(types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return signature, generate
