package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	pictureWidth  = 22 * vg.Centimeter
	pictureHeight = 11 * vg.Centimeter
	legendWidth   = 5.2 * vg.Centimeter
)

// write makes the picture as dir/name.svg.
func (c chart) write(dir string) error {
	p, legend, err := c.plot()
	if err != nil {
		return fmt.Errorf("chart %s: %w", c.name, err)
	}
	canvas, err := draw.NewFormattedCanvas(pictureWidth, pictureHeight, "svg")
	if err != nil {
		return err
	}
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	p.Draw(draw.Crop(whole, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(whole, pictureWidth-legendWidth+vg.Points(6), 0, 0, -vg.Centimeter))
	var picture bytes.Buffer
	if _, err := canvas.WriteTo(&picture); err != nil {
		return err
	}
	// What is said here is so anyway, and half of the file.
	text := bytes.ReplaceAll(picture.Bytes(), []byte("font-variant:normal;font-weight:normal;font-style:normal;"), nil)
	return os.WriteFile(filepath.Join(dir, c.name+".svg"), text, 0o644)
}

// plot has its legend beside it.
func (c chart) plot() (*plot.Plot, *plot.Legend, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p, legend := plot.New(), plot.NewLegend()
	p.BackgroundColor = nil
	legend.Top, legend.Left = true, true
	p.Title.Text = c.title
	p.X.Label.Text, p.Y.Label.Text = c.xLabel, c.yLabel
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	p.Add(grid)
	if c.groups != nil {
		return p, &legend, c.addBars(p, &legend)
	}
	return p, &legend, c.addLines(p, &legend)
}

func (c chart) addLines(p *plot.Plot, legend *plot.Legend) error {
	var ticks plot.ConstantTicks
	for i, s := range c.series {
		line, points, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return err
		}
		line.Color, points.Color = colorOf(i), colorOf(i)
		line.Width = vg.Points(1.5)
		points.Shape, points.Radius = plotutil.Shape(i), vg.Points(2.5)
		p.Add(line, points)
		legend.Add(s.name, line, points)
		for _, point := range s.points {
			tick := plot.Tick{Value: point.X, Label: fmt.Sprint(point.X)}
			if !slices.Contains(ticks, tick) {
				ticks = append(ticks, tick)
			}
		}
	}
	p.X.Tick.Marker = ticks
	if c.logX {
		p.X.Scale = plot.LogScale{}
	}
	if c.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	} else {
		p.Y.Min = 0
	}
	return nil
}

// addBars draws a logarithmic axis as one of logarithms: bars begin at its 0.
func (c chart) addBars(p *plot.Plot, legend *plot.Legend) error {
	width := vg.Points(400 / float64((len(c.series)+1)*len(c.groups)))
	if c.logY {
		p.Y.Tick.Marker = powers{}
	}
	for i, s := range c.series {
		values := make(plotter.Values, len(s.bars))
		for j, v := range s.bars {
			switch {
			case math.IsNaN(v) || v <= 0:
			case c.logY:
				values[j] = max(math.Log10(v)-lowestPower, 0)
			default:
				values[j] = v
			}
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bars.LineStyle.Width = 0
		bars.Color = colorOf(i)
		bars.Offset = width * vg.Length(float64(i)-float64(len(c.series)-1)/2)
		p.Add(bars)
		legend.Add(s.name, bars)
	}
	p.NominalX(c.groups...)
	p.X.Min, p.X.Max = -0.5, float64(len(c.groups))-0.5
	return nil
}

// colors are far enough apart for a dozen peers; this library's come first.
var colors = []color.RGBA{
	{200, 30, 30, 255}, {240, 140, 130, 255}, {30, 90, 180, 255}, {100, 170, 230, 255}, {20, 150, 130, 255},
	{150, 90, 180, 255}, {220, 150, 30, 255}, {120, 120, 120, 255}, {90, 60, 30, 255}, {150, 180, 40, 255}, {230, 90, 170, 255},
}

func colorOf(i int) color.RGBA { return colors[i%len(colors)] }

// lowestPower is the power of ten at which logarithmic bars begin.
const lowestPower = -2

// powers are the ticks of an axis of logarithms.
type powers struct{}

func (powers) Ticks(least, most float64) []plot.Tick {
	var all []plot.Tick
	for v := math.Floor(least); v <= math.Ceil(most); v++ {
		all = append(all, plot.Tick{Value: v, Label: fmt.Sprintf("%g", math.Pow(10, v+lowestPower))})
	}
	return all
}

// decades are the ticks of a logarithmic axis: 1, 2, 5, 10, 20 and so on.
type decades struct{}

func (decades) Ticks(least, most float64) []plot.Tick {
	var all []plot.Tick
	for ten := math.Pow(10, math.Floor(math.Log10(least))); ten <= most; ten *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * ten; v >= least && v <= most {
				all = append(all, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
			}
		}
	}
	return all
}
