"""A small real HTTP server that speaks OpenAI's API, and may answer otherwise or hang up."""

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any, dict[str, str]]
"""Status, body (what isn't bytes is sent as JSON), headers."""


@dataclass
class Endpoint:
    """A served model whose completion is a function of prompt and seed."""

    address: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    models: Any = field(default_factory=lambda: [{"id": "tiny", "root": "models/tiny"}])
    """What `/v1/models` lists."""
    logprobs_mode: str | None = None
    """What `/server_info` says, as under vLLM's development mode; None: no such path."""
    says: Callable[[dict[str, Any], Answer], Answer] = lambda body, usual: usual
    """Changes what it would answer to a request, or raises ConnectionError to hang up."""


def text_for(prompt, seed):
    return f"{prompt}{seed}</SOLUTION>"


def usual_answer(body):
    chat = "messages" in body
    prompt = body["messages"][-1]["content"] if chat else body["prompt"]
    text = text_for(prompt, body.get("seed", 0))
    said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    choice = {**said, "finish_reason": "stop", "stop_reason": "</SOLUTION>"}
    return 200, {"choices": [choice], "usage": {"completion_tokens": 3}}, {}


def handler_of(endpoint):
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_): ...

        def answer(self, status, body, headers):
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            endpoint.authorizations.append(self.headers["Authorization"])
            if self.path.startswith("/server_info") and endpoint.logprobs_mode:
                model = {"model_config": {"logprobs_mode": endpoint.logprobs_mode}}
                self.answer(200, {"vllm_config": model}, {})
            elif endpoint.models is None or self.path.startswith("/server_info"):
                self.answer(404, {"error": "no such path"}, {})
            else:
                self.answer(200, {"object": "list", "data": endpoint.models}, {})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                endpoint.authorizations.append(self.headers["Authorization"])
                endpoint.bodies.append(body)
                endpoint.paths.append(self.path)
            try:
                answer = endpoint.says(body, usual_answer(body))
            except ConnectionError:
                self.connection.close()
            else:
                self.answer(*answer)

    return Handler


@contextmanager
def serving(*endpoints):
    """Serve all of them for the length of the block."""
    with ExitStack() as servers:
        for endpoint in endpoints:
            server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(endpoint))
            servers.enter_context(server)
            servers.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            endpoint.address = f"http://127.0.0.1:{server.server_port}"
        yield
