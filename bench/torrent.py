"""One side of a BitTorrent v2 transfer, for bench/transfer.py and bench/reach.py (libtorrent from PyPI).

Usage: torrent.py seed PATH TORRENT PORT    makes TORRENT, seeds until it is ended
       torrent.py fetch TORRENT FOLDER PORT fetches all of it from 127.0.0.1:PORT, ends
       torrent.py node ADDRESS KNOWN        a node of the DHT at ADDRESS, which knows KNOWN
       torrent.py offer PATH KNOWN          seeds and announces in the DHT, prints a magnet link
       torrent.py find MAGNET FOLDER KNOWN  finds peers in the DHT, fetches all of it, ends
"""

import pathlib
import sys
import time

import libtorrent as lt

SETTINGS = {
    "enable_dht": False,
    "enable_lsd": False,
    "enable_upnp": False,
    "enable_natpmp": False,
    "allow_multiple_connections_per_ip": True,
    "alert_mask": lt.alert.category_t.error_notification | lt.alert.category_t.status_notification,
}


def session(port):
    return lt.session({**SETTINGS, "listen_interfaces": f"127.0.0.1:{port}"})


def with_dht(listen, known):
    """A session that finds peers only by the DHT, with some known nodes (separated by commas)."""
    # Nodes of one network at unusual addresses, which the guards would refuse.
    told = {"enable_dht": True, "dht_bootstrap_nodes": known, "listen_interfaces": listen}
    for guard in (
        "ignore_dark_internet", "restrict_routing_ips", "restrict_search_ips", "prefer_verified_node_ids",
        "enforce_node_id",
    ):  # fmt: skip
        told[f"dht_{guard}"] = False
    return lt.session({**SETTINGS, **told, "dht_announce_interval": 5})


def node(listen, known):
    running = with_dht(listen, known)
    print("a node", flush=True)
    while True:
        time.sleep(60)
        running.pop_alerts()


def offer(path, known):
    path = pathlib.Path(path)
    torrent = pathlib.Path.cwd() / "offered.torrent"
    make(path, torrent)
    running = with_dht("0.0.0.0:6881", known)
    info = lt.torrent_info(str(torrent))
    handle = running.add_torrent({"ti": info, "save_path": str(path.parent), "flags": lt.torrent_flags.seed_mode})
    while not handle.status().is_seeding:
        time.sleep(0.05)
    # The first announcement may come before the nodes have exchanged their ids.
    for _ in range(4):
        time.sleep(1)
        handle.force_dht_announce()
    time.sleep(1)
    print(lt.make_magnet_uri(info), flush=True)
    while True:
        time.sleep(5)
        handle.force_dht_announce()


def search(magnet, folder, known):
    running = with_dht("0.0.0.0:0", known)
    parameters = lt.parse_magnet_uri(magnet)
    parameters.save_path = folder
    # At once, and not when a queue of torrents has room.
    parameters.flags &= ~(lt.torrent_flags.paused | lt.torrent_flags.auto_managed)
    handle = running.add_torrent(parameters)
    asked = time.monotonic()
    while not handle.status().is_seeding:
        running.wait_for_alert(20)
        running.pop_alerts()
        if handle.status().num_peers == 0 and time.monotonic() - asked > 0.5:
            handle.force_dht_announce()
            asked = time.monotonic()
    flush(running, handle)


def make(path, torrent):
    files = lt.file_storage()
    lt.add_files(files, str(path))
    made = lt.create_torrent(files, 0, lt.create_torrent.v2_only)
    lt.set_piece_hashes(made, str(path.parent))
    torrent.write_bytes(lt.bencode(made.generate()))


def seed(path, torrent, port):
    path, torrent = pathlib.Path(path), pathlib.Path(torrent)
    unfinished = torrent.with_suffix(".unfinished")
    make(path, unfinished)
    running = session(port)
    handle = running.add_torrent(
        {
            "ti": lt.torrent_info(str(unfinished)),
            "save_path": str(path.parent),
            "flags": lt.torrent_flags.seed_mode | lt.torrent_flags.upload_mode,
        }
    )
    while not handle.status().is_seeding:
        time.sleep(0.01)
    unfinished.rename(torrent)
    while True:
        time.sleep(60)


def fetch(torrent, folder, port):
    running = session(0)
    handle = running.add_torrent({"ti": lt.torrent_info(torrent), "save_path": folder})
    handle.connect_peer(("127.0.0.1", int(port)))
    asked = time.monotonic()
    while not handle.status().is_seeding:
        running.wait_for_alert(20)
        running.pop_alerts()
        if handle.status().num_peers == 0 and time.monotonic() - asked > 1:
            handle.connect_peer(("127.0.0.1", int(port)))
            asked = time.monotonic()
    flush(running, handle)


def flush(running, handle):
    """Waits until its cache is written to the file."""
    handle.flush_cache()
    while not any(isinstance(alert, lt.cache_flushed_alert) for alert in running.pop_alerts()):
        running.wait_for_alert(100)


if __name__ == "__main__":
    modes = {"seed": seed, "fetch": fetch, "node": node, "offer": offer, "find": search}
    modes[sys.argv[1]](*sys.argv[2:])
