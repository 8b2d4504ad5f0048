extension CounterSet {
    /// The metrics in Prometheus text format 0.0.4, followed by `families`, whose labels are known only at run time.
    package func prometheusText(with families: [MetricFamily] = []) -> String {
        var out = ""
        var family = ""
        func head(_ name: MetricName, _ kind: String) {
            guard name.family != family else { return }
            family = name.family
            out += "# HELP \(family) \(name.help)\n# TYPE \(family) \(kind)\n"
        }
        for (name, value) in Counter.allCases.map({ ($0.name, self[$0]) }).sorted(by: { $0.0.family < $1.0.family }) {
            head(name, "counter")
            out += "\(name.sample) \(value)\n"
        }
        for gauge in Gauge.allCases {
            head(gauge.name, "gauge")
            out += "\(gauge.name.sample) \(self[gauge])\n"
        }
        for timing in Timing.allCases {
            let histogram = self[timing]
            head(timing.name, "histogram")
            for (bound, count) in histogram.cumulative {
                out += "\(timing.name.family)_bucket{le=\"\(Self.seconds(bound))\"} \(count)\n"
            }
            out += "\(timing.name.family)_bucket{le=\"+Inf\"} \(histogram.total)\n"
            out += "\(timing.name.family)_sum \(Self.seconds(histogram.sum))\n"
            out += "\(timing.name.family)_count \(histogram.total)\n"
        }
        for family in families { out += family.prometheusText }
        return out
    }

    /// A duration in seconds with six decimals. The text is computed with integers, because floating-point numbers
    /// would be inexact.
    static func seconds(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let digits = "\(attoseconds / 1_000_000_000_000)"
        return "\(seconds)." + String(repeating: "0", count: max(0, 6 - digits.count)) + digits
    }
}

extension MetricName {
    fileprivate var sample: String { labels.isEmpty ? family : "\(family){\(labels)}" }
}
