"""Score a Parquet file of any size in batches: memory depends on the batch, not on the file.

python examples/deployment/score_parquet.py model.abc rows.parquet scores.parquet
"""

import argparse

import pyarrow as pa
import pyarrow.parquet as pq

from abc_plugins.serving import Predictor


def score(model, source, target, batch_rows=65536):
    """Write a label and the probabilities of every row; returns the number of rows."""
    predictor = Predictor(model)
    rows = pq.ParquetFile(source, pre_buffer=False)  # a part of the file at a time
    names = predictor.feature_names or rows.schema_arrow.names
    classes = pa.array(predictor.classes_.tolist())
    schema = pa.schema([("label", classes.type), *((f"proba_{label}", pa.float64()) for label in classes.to_pylist())])
    n_rows = 0
    with pq.ParquetWriter(target, schema) as writer:
        for batch in rows.iter_batches(batch_size=batch_rows, columns=names):
            columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in names}
            X = columns if predictor.feature_names else list(zip(*columns.values(), strict=True))
            probabilities = predictor.predict_proba(X)
            labels = classes.take(pa.array(probabilities.argmax(axis=1)))
            writer.write_batch(pa.record_batch([labels, *map(pa.array, probabilities.T.copy())], schema=schema))
            n_rows += batch.num_rows
    return n_rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Score a Parquet file in batches.")
    parser.add_argument("model")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--batch-rows", type=int, default=65536)
    options = parser.parse_args()
    print(score(options.model, options.source, options.target, options.batch_rows), "rows")
