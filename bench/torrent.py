"""One side of a BitTorrent v2 transfer over loopback, for bench/transfer.py (libtorrent from PyPI).

Usage: torrent.py seed PATH TORRENT PORT    makes TORRENT, seeds until it is ended
       torrent.py fetch TORRENT FOLDER PORT fetches all of it from 127.0.0.1:PORT, ends
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
    # What is still in its cache goes to the file.
    handle.flush_cache()
    while not any(isinstance(alert, lt.cache_flushed_alert) for alert in running.pop_alerts()):
        running.wait_for_alert(100)


if __name__ == "__main__":
    {"seed": seed, "fetch": fetch}[sys.argv[1]](*sys.argv[2:])
