package redlockcertmagic_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockcertmagic"
	"github.com/redlock-go/redlock/redlocktest"
)

// openClient stands for redlock.Open with the addresses of your masters: here they are
// embedded nodes.
func openClient() (client *redlock.Client, end func()) {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	client, err = redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithNodeTimeout(time.Second), redlock.WithTTL(20*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { client.Close(); nodes.Close() }
}

func ExampleWrap() {
	client, end := openClient()
	defer end()
	dir, err := os.MkdirTemp("", "certificates-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	storage, err := redlockcertmagic.Wrap(&certmagic.FileStorage{Path: dir}, client)
	if err != nil {
		log.Fatal(err)
	}
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
	})
	defer cache.Stop()
	ca := &authority{} // your issuer, such as certmagic.NewACMEIssuer
	config = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{ca}})
	if err := config.ManageSync(context.Background(), []string{"example.com"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("certificates issued:", ca.issued.Load())
	// Output: certificates issued: 1
}

func ExampleStorage() {
	client, end := openClient()
	defer end()
	storage, err := redlockcertmagic.Wrap(&certmagic.FileStorage{Path: "/mnt/certificates"}, client)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(storage)

	ctx := context.Background()
	if err := storage.Lock(ctx, "storage_clean"); err != nil {
		log.Fatal(err)
	}
	free, err := storage.TryLock(ctx, "storage_clean")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("free:", free)
	fmt.Println("unlock:", storage.Unlock(ctx, "storage_clean"))
	fmt.Println("again:", storage.Unlock(ctx, "storage_clean"))
	// Output:
	// redlock:FileStorage:/mnt/certificates
	// free: false
	// unlock: <nil>
	// again: redlockcertmagic: unlock "storage_clean": no caller of this process holds the lock: it was not locked, or unlocked before: the lease is released
}

func ExampleStorage_RenewLockLease() {
	client, end := openClient()
	defer end()
	storage, err := redlockcertmagic.Wrap(&certmagic.FileStorage{Path: "/mnt/certificates"}, client)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(storage.RenewLockLease(ctx, "issue_cert_example.com", 3*time.Minute))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// <nil>
}
