package main

import (
	"debug/buildinfo"
	"encoding/json"
	"slices"
	"strings"
)

// bill is what a CycloneDX document of a program must say. It has neither a number nor a time of
// its own, so that the same binaries have the same bill.
type bill struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// newComponent returns the component of a Go module. sum is go's own, or "".
func newComponent(kind, path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}

// billOfMaterials lists, as CycloneDX in JSON, the modules that are in any of the binaries, by
// what go recorded in them, and Go's own library.
func billOfMaterials(version string, binaries []string) (string, error) {
	document := bill{Format: "CycloneDX", SpecVersion: "1.5", Version: 1}
	for _, file := range binaries {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return "", err
		}
		document.Metadata.Component = newComponent("application", info.Main.Path, version, "")
		parts := []component{newComponent("library", "std", strings.TrimPrefix(info.GoVersion, "go"), "")}
		for _, dep := range info.Deps {
			parts = append(parts, newComponent("library", dep.Path, dep.Version, dep.Sum))
		}
		for _, part := range parts {
			listed := func(c component) bool { return c.Ref == part.Ref }
			if !slices.ContainsFunc(document.Components, listed) {
				document.Components = append(document.Components, part)
			}
		}
	}
	slices.SortFunc(document.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	text, err := json.MarshalIndent(document, "", "  ")
	return string(text) + "\n", err
}
