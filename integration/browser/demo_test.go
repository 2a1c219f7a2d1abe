package browser

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
	"github.com/redlock-go/redlock/redlockweb"
)

var pictures = flag.String("pictures", "", "the directory into which TestPictures writes its pictures")

// plant makes the locks of a shop at night, with one of each kind.
func plant(t *testing.T, nodes *redlocktest.Nodes) {
	t.Helper()
	set(t, nodes, "legacy-job", "worker", 0)
	client := func(label string) *redlock.Client {
		return open(t, nodes, redlock.WithOwnerLabel(label))
	}
	must := func(lease *redlock.Lease, err error) {
		require.NoError(t, err)
		keep(t, lease)
	}
	hold(t, nodes, "backup", "cron-7:88")
	hold(t, nodes, "invoice-42", "web-3:4711")
	hold(t, nodes, "report", "etl-3:9", redlock.WithTTL(40*time.Second), redlock.WithoutRenewal())
	must(client("pay-1:77").Multi([]string{"account-3", "account-7"}).Lock(t.Context()))
	must(client("ci-1:17").Semaphore("deployments", 3).Acquire(t.Context(), 1))
	must(client("ci-2:40").Semaphore("deployments", 3).Acquire(t.Context(), 2))
	for _, label := range []string{"web-1:31", "web-2:7", "web-3:4711", "web-5:2"} {
		must(client(label).RWMutex("catalog").RLock(t.Context()))
	}
	rests, err := client("cron-1:5").Mutex("nightly", redlock.WithTTL(5*time.Minute), redlock.WithMinHold(5*time.Minute)).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, rests.Unlock(t.Context()))
	must(client("etl-1:12").Mutex("export", redlock.WithWanted()).Lock(t.Context()))

	wait(t, nodes, "cron-2:91", forLock("backup"))
	time.Sleep(time.Second)
	wait(t, nodes, "cron-4:12", forLock("backup"))
	wait(t, nodes, "ci-4:22", func(ctx context.Context, c *redlock.Client) error {
		_, err := c.Semaphore("deployments", 3).Acquire(ctx, 2)
		return err
	})
	wait(t, nodes, "web-1:40", func(ctx context.Context, c *redlock.Client) error {
		_, err := c.RWMutex("catalog").Lock(ctx)
		return err
	})
}

// maxPicture bounds the size of a picture in the README, in bytes.
const maxPicture = 80 << 10

// distance returns by how much two colours differ.
func distance(a, b color.Color) (all int) {
	ar, ag, ab, _ := a.RGBA()
	br, bg, bb, _ := b.RGBA()
	for _, d := range []int{int(ar) - int(br), int(ag) - int(bg), int(ab) - int(bb)} {
		all += max(d, -d)
	}
	return all
}

// shots are the pictures that TestPictures takes. Those without a name of the README are for a person who changes the page.
var shots = []struct {
	file, scheme string
	width        int64
}{
	{"web-light.png", "light", 1280},
	{"web-dark.png", "dark", 1280},
	{"narrow-light.png", "light", 390},
	{"narrow-dark.png", "dark", 390},
}

// shrink keeps 256 colours of a picture: the commonest, but no two that look alike.
func shrink(t *testing.T, data []byte) []byte {
	t.Helper()
	whole, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	count := make(map[color.Color]int)
	for y := range whole.Bounds().Dy() {
		for x := range whole.Bounds().Dx() {
			count[whole.At(x, y)]++
		}
	}
	common := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	const alike = 3000 // of 65535, in all channels together
	kept := color.Palette(common[:16])
	for _, c := range common[16:] {
		near := kept.Convert(c)
		if len(kept) < 256 && distance(c, near) > alike {
			kept = append(kept, c)
		}
	}
	few := image.NewPaletted(whole.Bounds(), kept)
	draw.Draw(few, few.Bounds(), whole, image.Point{}, draw.Src)
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, few))
	return b.Bytes()
}

func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("make pictures runs it")
	}
	require.NoError(t, os.MkdirAll(*pictures, 0o755))
	nodes := redlocktest.Start(t, 5)
	plant(t, nodes)
	nodes.Stop(3)
	url := serve(t, nodes, redlockweb.WithTitle("prod-eu"))
	browser := openBrowser(t, chromedp.Flag("hide-scrollbars", true))
	do(t, browser, chromedp.Navigate(url))
	await(t, browser, `document.querySelector('#masters .error') && document.querySelectorAll('#rows tr').length == 9`)
	await(t, browser, `/report[^]*runs down/.test(document.getElementById('odd').innerText)`) // after half its ttl
	for _, shot := range shots {
		scheme := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: shot.scheme}}
		run(t, browser, command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: scheme}))
		do(t, browser, chromedp.EmulateViewport(shot.width, 300))
		height := eval[int64](t, browser, `Math.ceil(document.documentElement.scrollHeight)`)
		do(t, browser, chromedp.EmulateViewport(shot.width, height))
		path := filepath.Join(*pictures, shot.file)
		if strings.HasPrefix(shot.file, "narrow") { // beside the README's
			path = filepath.Join(os.TempDir(), "redlock-"+shot.file)
		}
		data := shrink(t, run(t, browser, chromedp.CaptureScreenshot()))
		require.NoError(t, os.WriteFile(path, data, 0o644))
		t.Logf("%s: %d bytes", path, len(data))
		require.LessOrEqual(t, len(data), maxPicture, shot.file)
	}
}
