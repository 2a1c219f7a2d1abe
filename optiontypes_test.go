package redlock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestCompilerRefusesOptionsInTheWrongPlace(t *testing.T) {
	text, err := os.ReadFile("testdata/options/options.go")
	require.NoError(t, err)
	var want, refused []int
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, "// refused") {
			want = append(want, i+1)
		}
	}
	require.NotEmpty(t, want)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "./testdata/options").CombinedOutput()
	require.Error(t, err)
	for _, m := range regexp.MustCompile(`(?m)options\.go:(\d+):\d+: .* does not implement `).FindAllStringSubmatch(string(out), -1) {
		line, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		refused = append(refused, line)
	}
	require.Equal(t, want, refused, "%s", out)
}

func ExampleClientOption() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	// What all services of a company have in common.
	common := []redlock.ClientOption{redlock.WithRestartGuard(0), redlock.WithLogger(nil), redlock.WithTTL(5 * time.Second)}
	client, err := redlock.Open(nodes.URLs(), append(common, redlock.WithOwnerLabel("shop"))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println("ping:", client.Ping(context.Background()))
	// Output:
	// ping: <nil>
}

func ExampleLockOption() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	brief := []redlock.LockOption{redlock.WithTTL(2 * time.Second), redlock.WithMaxHold(time.Minute)}
	lease, err := client.Mutex("cache", brief...).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("at most two seconds left:", lease.Remaining() <= 2*time.Second)
	fmt.Println("released:", lease.Unlock(ctx))
	// Output:
	// at most two seconds left: true
	// released: <nil>
}

func ExampleOption() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	// An Option given to Open is the default of the client's locks. A lock's own one overrides it.
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithOwnerLabel("shop"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, m := range []*redlock.Mutex{client.Mutex("orders"), client.Mutex("report", redlock.WithOwnerLabel("night shift"))} {
		err := m.Do(context.Background(), func(_ context.Context, lease *redlock.Lease) error {
			fmt.Println(lease.Name(), "is held by", lease.Label())
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// orders is held by shop
	// report is held by night shift
}
