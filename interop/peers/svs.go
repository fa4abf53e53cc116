// ndnd as a member of a sync group, for interop/run: its std/sync of version 3.
//
//	svs GROUP NAME COUNT
//
// Publishes COUNT packets with texts `NAME says N`, one each 200 ms, and fetches those of others; prints a line
// `heard NAME N TEXT` for each, until it is ended. Connects to NDN_CLIENT_TRANSPORT.
package main

import (
	"fmt"
	"os"
	"strconv"
	gosync "sync"
	"time"

	enc "github.com/named-data/ndnd/std/encoding"
	"github.com/named-data/ndnd/std/engine"
	"github.com/named-data/ndnd/std/ndn"
	spec "github.com/named-data/ndnd/std/ndn/spec_2022"
	"github.com/named-data/ndnd/std/object"
	"github.com/named-data/ndnd/std/object/storage"
	"github.com/named-data/ndnd/std/security/signer"
	"github.com/named-data/ndnd/std/sync"
	"github.com/named-data/ndnd/std/types/optional"
)

func must(err error) {
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func main() {
	group, err := enc.NameFromStr(os.Args[1])
	must(err)
	name, err := enc.NameFromStr(os.Args[2])
	must(err)
	count, err := strconv.ParseUint(os.Args[3], 10, 64)
	must(err)

	app := engine.NewBasicEngine(engine.NewDefaultFace())
	must(app.Start())
	client := object.NewClient(app, storage.NewMemoryStore(), nil)
	must(client.Start())

	nameOf := func(node enc.Name, boot, seq uint64) enc.Name {
		return node.Append(group...).
			Append(enc.NewTimestampComponent(boot)).
			Append(enc.NewSequenceNumComponent(seq))
	}

	var lock gosync.Mutex
	published := map[string]enc.Wire{}
	must(app.AttachHandler(name.Append(group...), func(args ndn.InterestHandlerArgs) {
		lock.Lock()
		wire, found := published[args.Interest.Name().String()]
		lock.Unlock()
		if found {
			args.Reply(wire)
		}
	}))

	updates := make(chan sync.SvSyncUpdate, 64)
	svs := sync.NewSvSync(sync.SvSyncOpts{
		Client:      client,
		GroupPrefix: group,
		OnUpdate:    func(update sync.SvSyncUpdate) { updates <- update },
	})
	for _, prefix := range []enc.Name{group, name.Append(group...)} {
		client.AnnouncePrefix(ndn.Announcement{Name: prefix})
	}
	time.Sleep(300 * time.Millisecond) // announcements are not waited for
	must(svs.Start())
	fmt.Println("joined")

	go func() {
		for update := range updates {
			for seq := update.Low; seq <= update.High; seq++ {
				client.ExpressR(ndn.ExpressRArgs{
					Name:    nameOf(update.Name, update.Boot, seq),
					Config:  &ndn.InterestConfig{Lifetime: optional.Some(time.Second)},
					Retries: 3,
					Callback: func(args ndn.ExpressCallbackArgs) {
						if args.Result != ndn.InterestResultData {
							fmt.Println("error", update.Name, seq, args.Result, args.Error)
							return
						}
						fmt.Printf("heard %s %d %s\n", update.Name, seq, args.Data.Content().Join())
					},
				})
			}
		}
	}()

	for seq := uint64(1); seq <= count; seq++ {
		publication := nameOf(name, svs.GetBootTime(), seq)
		data, err := spec.Spec{}.MakeData(
			publication,
			&ndn.DataConfig{Freshness: optional.Some(time.Minute)},
			enc.Wire{[]byte(fmt.Sprintf("%s says %d", name, seq))},
			signer.NewSha256Signer(),
		)
		must(err)
		lock.Lock()
		published[publication.String()] = data.Wire
		lock.Unlock()
		svs.IncrSeqNo(name)
		time.Sleep(200 * time.Millisecond)
	}
	select {}
}
