"""A daemon that has only the inventory of a machine, GET /api/gpu/host, as a test sets it: for machines that
no test has.
"""

import http.server
import json
import threading

from fake_leasing import Server


def machine(name, sockets=2, nodes=1, cores=4, threads=2, memory_mib=64_000):
    """The part of an inventory beside its GPUs: `nodes` NUMA nodes in each socket, each of so many cores."""
    all_nodes = []
    for node in range(sockets * nodes):
        first = node * cores
        all_nodes.append({"node": node, "cpus": list(range(first * threads, (first + cores) * threads)),
                          "cores": list(range(first, first + cores))})
    return {"hostname": name, "full_hostname": name, "cpus": sockets * nodes * cores * threads,
            "sockets": sockets, "cores_per_socket": nodes * cores, "threads_per_core": threads,
            "numa_nodes": all_nodes, "memory_mib": memory_mib, "slurm_version": None, "in_container": False}


def gpu(index, minor=None, name="NVIDIA H100 80GB HBM3", node=0, mig=False, lost=None):
    return {"index": index, "minor": index if minor is None else minor, "uuid": f"GPU-{index}",
            "pci_address": f"0000:{index + 1:02x}:00.0", "name": name, "numa_node": node,
            "mig_enabled": mig, "lost": lost}


def inventory(about, gpus):
    return {"schema": 1, "simulated": False, "driver_error": None, "machine": about, "gpus": gpus}


class InventoryDaemon:
    """Listens on a Unix socket. `answer` is the inventory; None: the daemon is too old to have one."""

    def __init__(self, socket, answer):
        self.answer = answer
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                known = self.path == "/api/gpu/host" and fake.answer is not None
                body = fake.answer if known else {"error": {"code": "not_found", "message": "no such route"}}
                text = json.dumps(body).encode()
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def address_string(self):
                return "a Unix socket"

            def log_message(self, *_):
                pass

        self.server = Server(str(socket), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()
