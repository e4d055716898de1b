"""Serve a model over HTTP with the standard library, NumPy and Numba.

    python examples/deployment/serve_http.py model.abc --port 8080
    curl -X POST localhost:8080/predict -d '{"rows": [{"height": 1.2, "colour": "red"}]}'

Rows are objects by feature name, or lists for a model without names. The answer has a label and probabilities, in the
order of the "classes" of GET /model, for every row. Put it behind a proxy that ends TLS and spreads requests.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from abc_plugins.serving import Predictor

MAX_BYTES = 2**24
"""Longer requests are refused before they are read."""


def make_handler(predictor):
    """Make the class that answers requests with the predictor's predictions."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.path == "/health":
                self.answer(200, {"status": "ok"})
            elif self.path == "/model":
                self.answer(200, {"classes": predictor.classes_.tolist(), "features": predictor.feature_names})
            else:
                self.answer(404, {"error": f"there is no {self.path}; GET /health, GET /model or POST /predict"})

        def do_POST(self):
            length = self.headers.get("Content-Length", "")
            if self.path != "/predict":
                self.refuse(404, f"there is no {self.path}; POST to /predict")
            elif not length.isdigit():
                self.refuse(411, "the request must say its length")
            elif int(length) > MAX_BYTES:
                self.refuse(413, f"the request has {length} bytes; at most {MAX_BYTES} are allowed")
            else:
                self.predict(self.rfile.read(int(length)))

        def predict(self, body):
            try:
                request = json.loads(body)
                if not isinstance(request, dict) or not isinstance(request.get("rows"), list):
                    raise ValueError('the request must be an object with a list of "rows"')
                probabilities = predictor.predict_proba(request["rows"])
            except (ValueError, TypeError, RecursionError) as error:  # whatever is wrong with the rows, by name
                self.answer(400, {"error": str(error)})
                return
            labels = predictor.classes_[probabilities.argmax(axis=1)]
            self.answer(200, {"labels": labels.tolist(), "probabilities": probabilities.tolist()})

        def refuse(self, status, error):
            """Answer without having read the request; the connection cannot be used again."""
            self.close_connection = True
            self.answer(status, {"error": error})

        def answer(self, status, content):
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Write no line for every request."""

    return Handler


def make_server(path, port=8080, host="127.0.0.1"):
    """Load the model and make the server; port 0 takes a free one."""
    predictor = Predictor(path)
    predictor.warm_up()
    return ThreadingHTTPServer((host, port), make_handler(predictor))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve a model over HTTP.")
    parser.add_argument("model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    server = make_server(options.model, options.port, options.host)
    print(f"http://{options.host}:{server.server_address[1]}", flush=True)
    server.serve_forever()
