// NDNd's NDNCERT client against our CA: certifies a key by PIN and by email, and prints the results.
//
// Usage: ndncert LINES, the program of crates/xylem-ndncert/examples/lines.rs, with which packets are
// exchanged as lines of hexadecimal digits. Exit code 1 if a step failed.
package main

import (
	"bufio"
	"crypto/elliptic"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	enc "github.com/named-data/ndnd/std/encoding"
	"github.com/named-data/ndnd/std/engine/basic"
	"github.com/named-data/ndnd/std/engine/face"
	sec "github.com/named-data/ndnd/std/security"
	"github.com/named-data/ndnd/std/security/ndncert"
	sig "github.com/named-data/ndnd/std/security/signer"
)

// A face to a CA's standard input and output.
type linesFace struct {
	*face.DummyFace
	mutex sync.Mutex
	in    *bufio.Writer
	out   *bufio.Scanner
	code  string
}

func (f *linesFace) Send(packet enc.Wire) error {
	bytes := packet.Join()
	go func() {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		fmt.Fprintf(f.in, "interest %s\n", hex.EncodeToString(bytes))
		f.in.Flush()
		for f.out.Scan() {
			words := strings.Fields(f.out.Text())
			switch words[0] {
			case "event":
				if words[1] != "issued" {
					f.code = words[2]
				}
			case "data":
				data, _ := hex.DecodeString(words[1])
				f.DummyFace.FeedPacket(data)
				return
			default:
				return
			}
		}
	}()
	return nil
}

func request(lines string, identity string, wrong int, email string, probe bool) (string, error) {
	child := exec.Command(lines, "ca", "/authority")
	stdin, _ := child.StdinPipe()
	stdout, _ := child.StdoutPipe()
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		return "", err
	}
	defer child.Wait()
	defer stdin.Close()
	f := &linesFace{DummyFace: face.NewDummyFace(), in: bufio.NewWriter(stdin), out: bufio.NewScanner(stdout)}
	f.out.Buffer(nil, 1<<20)
	f.out.Scan()
	own, err := hex.DecodeString(strings.Fields(f.out.Text())[1])
	if err != nil {
		return "", err
	}
	f.out.Scan()

	engine := basic.NewEngine(f, basic.NewTimer())
	if err := engine.Start(); err != nil {
		return "", err
	}
	defer engine.Stop()
	client, err := ndncert.NewClient(engine, own)
	if err != nil {
		return "", err
	}
	name, _ := enc.NameFromStr(identity)
	signer, err := sig.KeygenEcc(sec.MakeKeyName(name), elliptic.P256())
	if err != nil {
		return "", err
	}
	if !probe {
		client.SetSigner(signer)
	}
	tried := 0
	code := func(string) string {
		if tried++; tried <= wrong {
			return "000000"
		}
		return f.code
	}
	var challenge ndncert.Challenge = &ndncert.ChallengePin{CodeCallback: code}
	if email != "" {
		challenge = &ndncert.ChallengeEmail{Email: email, CodeCallback: code}
	}
	result, err := client.RequestCert(ndncert.RequestCertArgs{
		Challenge:    challenge,
		DisableProbe: !probe,
		OnProbeParam: func(key string) ([]byte, error) { return []byte("al@example.org"), nil },
	})
	if err != nil {
		return "", err
	}
	if !name.IsPrefix(result.CertData.Name()) || !result.Signer.KeyName().IsPrefix(result.CertData.Name()) {
		return "", fmt.Errorf("certificate of another name: %s", result.CertData.Name())
	}
	return "issued", nil
}

func main() {
	failed := 0
	for _, c := range []struct {
		what, identity string
		wrong          int
		email          string
		probe          bool
		expect         string
	}{
		{"pin", "/authority/al", 0, "", false, "issued"},
		{"pin after two wrong ones", "/authority/al", 2, "", false, "issued"},
		{"three wrong pins", "/authority/al", 3, "", false, "(7)"},
		{"email", "/authority/org/example/_user/al", 0, "al@example.org", false, "issued"},
		{"pin after probe", "/authority/org/example/_user/al", 0, "", true, "issued"},
		{"email after probe", "/authority/org/example/_user/al", 0, "al@example.org", true, "issued"},
		{"the email of another name", "/authority/al", 0, "al@example.org", false, "(5)"},
	} {
		said, err := request(os.Args[1], c.identity, c.wrong, c.email, c.probe)
		if err != nil {
			said = err.Error()
		}
		verdict := "ok  "
		if !strings.Contains(said, c.expect) {
			verdict = "FAIL"
			failed = 1
		}
		fmt.Printf("%s NDNd as client of ours: %s: %s\n", verdict, c.what, said)
	}
	os.Exit(failed)
}
