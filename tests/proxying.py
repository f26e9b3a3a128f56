"""A small reverse proxy that has an app below a path, and takes the path off, as they do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

NOT_PASSED_ON = ("connection", "transfer-encoding", "content-length", "content-encoding", "host")


@contextmanager
def proxy(target: str, prefix: str, port: int = 0) -> Iterator[str]:
    """Its address, prefix included. `target` is the app's."""
    client = httpx.Client(timeout=60)

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            if not self.path.startswith(prefix + "/"):
                # Browsers ask for it at the root of a server, whatever a page says.
                self.send_error(204 if self.path == "/favicon.ico" else 404)
                return
            length = int(self.headers.get("Content-Length") or 0)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in NOT_PASSED_ON}
            headers["X-Forwarded-Host"] = self.headers["Host"]
            headers["Accept-Encoding"] = "identity"
            url = target.rstrip("/") + self.path.removeprefix(prefix)
            body = self.rfile.read(length)
            with client.stream(self.command, url, headers=headers, content=body) as answer:
                self.send_response(answer.status_code)
                for name, value in answer.headers.multi_items():
                    if name not in NOT_PASSED_ON:
                        self.send_header(name, value)
                self.end_headers()
                try:
                    for part in answer.iter_raw():
                        self.wfile.write(part)
                        self.wfile.flush()
                except (OSError, httpx.TransportError):  # whoever asked has gone, or the app
                    pass

        do_GET = do_POST = do_HEAD = handle_any

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        client.close()
