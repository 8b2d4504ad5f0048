/// Metrics with one name, and with labels whose values are known only at run time, such as names of apps.
package struct MetricFamily: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case counter, gauge, histogram
    }

    package struct Sample: Hashable, Sendable {
        /// The end of a sample's name, after the metric family's name.
        package let suffix: String
        package let labels: [Label]
        /// A sample's value, as printed in the metrics.
        package let value: String
    }

    package struct Label: Hashable, Sendable {
        package let name: StaticName
        package let value: String
    }

    /// The names of labels, which are fixed in the code, while values can come from outside.
    package enum StaticName: String, Hashable, Sendable {
        case provider, app, outcome, version, server, file, state, result, host, le
    }

    package let name: String
    package let kind: Kind
    package let help: String
    package private(set) var samples: [Sample] = []

    package init(_ name: String, _ kind: Kind, _ help: String) {
        self.name = name
        self.kind = kind
        self.help = help
    }

    package mutating func add(_ value: some BinaryInteger, _ labels: KeyValuePairs<StaticName, String> = [:]) {
        add(text: "\(value)", labels)
    }

    /// Adds a duration in seconds with six decimals.
    package mutating func add(_ duration: Duration, _ labels: KeyValuePairs<StaticName, String> = [:]) {
        add(text: CounterSet.seconds(duration), labels)
    }

    /// Adds all samples of a histogram to the metric family.
    package mutating func add(_ histogram: Histogram) {
        for (bound, count) in histogram.cumulative {
            add(text: "\(count)", [.le: CounterSet.seconds(bound)], suffix: "_bucket")
        }
        add(text: "\(histogram.total)", [.le: "+Inf"], suffix: "_bucket")
        add(text: CounterSet.seconds(histogram.sum), [:], suffix: "_sum")
        add(text: "\(histogram.total)", [:], suffix: "_count")
    }

    private mutating func add(text: String, _ labels: KeyValuePairs<StaticName, String>, suffix: String = "") {
        samples.append(Sample(suffix: suffix, labels: labels.map { Label(name: $0.key, value: $0.value) }, value: text))
    }

    /// The metric family in Prometheus text format; empty without samples.
    var prometheusText: String {
        guard !samples.isEmpty else { return "" }
        var out = "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
        for sample in samples {
            let labels = sample.labels.map { "\($0.name.rawValue)=\"\(Self.escaped($0.value))\"" }
            out += name + sample.suffix
            if !labels.isEmpty { out += "{\(labels.joined(separator: ","))}" }
            out += " \(sample.value)\n"
        }
        return out
    }

    /// The value of a label, with the three escapes of Prometheus's text format.
    private static func escaped(_ value: String) -> String {
        var out = ""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\\": out += "\\\\"
            case "\"": out += "\\\""
            case "\n": out += "\\n"
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }
}
