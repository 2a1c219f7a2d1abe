package redlockotel_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlockotel"
	"github.com/redlock-go/redlock/redlocktest"
)

// openExample opens a client over three embedded nodes. closeAll closes the client and the nodes.
func openExample(opts ...redlock.ClientOption) (client *redlock.Client, closeAll func()) {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	opts = append(opts, redlock.WithRestartGuard(0), redlock.WithLogger(nil))
	if client, err = redlock.Open(nodes.URLs(), opts...); err != nil {
		log.Fatal(err)
	}
	return client, func() {
		_ = client.Close()
		nodes.Close()
	}
}

// lockAnInvoice locks a name once, and ends the client: then everything is recorded.
func lockAnInvoice(telemetry *redlockotel.Telemetry) {
	client, closeAll := openExample(redlock.WithTrace(telemetry.Trace()))
	defer closeAll()
	err := client.Mutex("invoice-42").Do(context.Background(), func(context.Context, *redlock.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
}

// points returns the attributes of a metric's time series.
func points(reader *sdkmetric.ManualReader, metric string) (all []attribute.Set) {
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &collected); err != nil {
		log.Fatal(err)
	}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, is := m.Data.(metricdata.Histogram[float64]); is && m.Name == metric {
				for _, p := range h.DataPoints {
					all = append(all, p.Attributes)
				}
			}
		}
	}
	return all
}

// The kind of an invoice's lock stands in metrics, not the invoice.
func ExampleNew() {
	reader := sdkmetric.NewManualReader() // in a program: a reader of the Prometheus exporter, or one that pushes
	telemetry, err := redlockotel.New(
		redlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
		redlockotel.WithNameAttribute(func(name string) string {
			kind, _, _ := strings.Cut(name, "-")
			return kind
		}))
	if err != nil {
		log.Fatal(err)
	}
	lockAnInvoice(telemetry)
	for _, attributes := range points(reader, "redlock.lease.duration") {
		name, _ := attributes.Value("redlock.lock.name")
		fmt.Println(name.AsString())
	}
	// Output: invoice
}

func ExampleWithTracerProvider() {
	exporter := tracetest.NewInMemoryExporter() // in a program: one that sends spans to a collector
	telemetry, err := redlockotel.New(redlockotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))))
	if err != nil {
		log.Fatal(err)
	}
	lockAnInvoice(telemetry)
	seen := map[string]bool{}
	for _, span := range exporter.GetSpans() {
		seen[span.Name] = true
	}
	fmt.Println(seen["redlock lock"], seen["redlock ballot"], seen["redlock unlock"])
	// Output: true true true
}

func ExampleWithMeterProvider() {
	reader := sdkmetric.NewManualReader()
	telemetry, err := redlockotel.New(redlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	if err != nil {
		log.Fatal(err)
	}
	lockAnInvoice(telemetry)
	fmt.Println(len(points(reader, "redlock.lease.duration")), "lease has ended")
	// Output: 1 lease has ended
}

func ExampleWithNameAttribute() {
	option := redlockotel.WithNameAttribute(func(name string) string {
		kind, _, _ := strings.Cut(name, "-") // "invoice" for "invoice-42"
		return kind
	})
	_, err := redlockotel.New(option)
	fmt.Println(err)
	// Output: <nil>
}

// Two sets of masters have clients of their own, which metrics tell apart.
func ExampleWithAttributes() {
	reader := sdkmetric.NewManualReader()
	meters := redlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	for _, region := range []string{"eu", "us"} {
		telemetry, err := redlockotel.New(meters, redlockotel.WithAttributes(attribute.String("region", region)))
		if err != nil {
			log.Fatal(err)
		}
		lockAnInvoice(telemetry)
	}
	fmt.Println(len(points(reader, "redlock.lease.duration")), "series, one for each region")
	// Output: 2 series, one for each region
}

// Hooks of your own go beside those of the telemetry.
func ExampleTelemetry_Trace() {
	telemetry, err := redlockotel.New()
	if err != nil {
		log.Fatal(err)
	}
	trace := telemetry.Trace()
	trace.Node = func(e redlock.NodeEvent) { fmt.Println(e.Kind) } // the telemetry leaves it nil
	fmt.Println(trace.Lease != nil)
	// Output: true
}

// Gauges and counters are read from the client whenever metrics are collected.
func ExampleTelemetry_Observe() {
	client, closeAll := openExample()
	defer closeAll()
	telemetry, err := redlockotel.New()
	if err != nil {
		log.Fatal(err)
	}
	registration, err := telemetry.Observe(client)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { fmt.Println(registration.Unregister()) }()
	// Output: <nil>
}
