// Package load is the life of a program that locks, for the demo of deploy/ and its tests: callers of each kind of lock
// wait, hold and release, and a client's metrics are served to Prometheus.
//
// Serve starts one goroutine for each caller and one for the HTTP server, and ends them all before it returns.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlockotel"
)

// maxScrape bounds how long the server waits for the request of a scrape.
const maxScrape = 10 * time.Second

// Config says what the callers do. All of its durations but LoseEvery are above 0.
type Config struct {
	Masters     []string      // URLs
	TTL         time.Duration // of each lock
	NodeTimeout time.Duration
	LoseEvery   time.Duration // so often a lease is taken away by force; 0: never
	Options     []redlock.ClientOption
}

// Serve locks and serves /metrics at the listener, until ctx ends or the server fails. Then it gives all locks back, and
// closes the listener. It returns an error if the configuration is refused or the server fails.
func Serve(ctx context.Context, listener net.Listener, c Config) (err error) {
	defer listener.Close()
	registry := prometheus.NewRegistry()
	client, err := c.open(registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: maxScrape}
	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { stop(server.Serve(listener)) })
	for _, caller := range callers(client, c) {
		for range caller.count {
			running.Go(func() { caller.run(ctx) })
		}
	}
	<-ctx.Done()
	err = server.Close()
	running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, http.ErrServerClosed) && !errors.Is(cause, ctx.Err()) {
		err = errors.Join(cause, err)
	}
	return err
}

// open returns a client whose metrics the registry has. They stay registered: they are the process's as long as it runs.
func (c Config) open(registry *prometheus.Registry) (*redlock.Client, error) {
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, fmt.Errorf("exporter: %w", err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	telemetry, err := redlockotel.New(redlockotel.WithMeterProvider(provider))
	if err != nil {
		return nil, fmt.Errorf("instruments: %w", err)
	}
	options := []redlock.ClientOption{
		redlock.WithTrace(telemetry.Trace()), redlock.WithTTL(c.TTL), redlock.WithNodeTimeout(c.NodeTimeout),
	}
	client, err := redlock.Open(c.Masters, append(options, c.Options...)...)
	if err != nil {
		return nil, err
	}
	if _, err := telemetry.Observe(client); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}
