import Foundation

/// The results of the benchmarks: a table for people, or lines of JSON for programs.
package struct Report: Sendable {
    package let machine: Machine
    package private(set) var figures: [Figure] = []
    /// Sentences about measurements that failed or exceeded a limit.
    package private(set) var complaints: [String] = []

    package init(machine: Machine) { self.machine = machine }

    package mutating func add(_ benchmark: String, _ name: String, _ unit: String, _ rounds: [Double]) {
        figures.append(Figure(benchmark, name, unit, rounds))
    }

    package mutating func add(_ benchmark: String, _ name: String, _ unit: String, _ value: Double) {
        add(benchmark, name, unit, [value])
    }

    /// Adds the median and the 99th percentile of the durations, in milliseconds.
    package mutating func add(_ benchmark: String, _ name: String, _ samples: Samples) {
        add(benchmark, name + ", p50", "ms", samples.percentile(50).milliseconds)
        add(benchmark, name + ", p99", "ms", samples.percentile(99).milliseconds)
    }

    package mutating func complain(_ sentence: String) { complaints.append(sentence) }

    package var table: String {
        let names = figures.map { "\($0.benchmark): \($0.name)" }
        let values = figures.map(\.text)
        let nameWidth = names.map(\.count).max() ?? 0
        let valueWidth = values.map(\.count).max() ?? 0
        var text = machine.text + "\n\n"
        for (index, figure) in figures.enumerated() {
            text += names[index] + String(repeating: " ", count: nameWidth - names[index].count + 2)
            text += values[index] + String(repeating: " ", count: valueWidth - values[index].count)
            text += " \(figure.unit)\n"
        }
        for complaint in complaints { text += "\n!!! \(complaint)" }
        return text + (complaints.isEmpty ? "" : "\n")
    }

    /// Returns the report as lines of JSON: one line for the machine, one for each quantity, and one for each
    /// complaint.
    package func jsonLines() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        var lines = [try encoder.encode(machine)]
        for figure in figures { lines.append(try encoder.encode(figure)) }
        for complaint in complaints { lines.append(try encoder.encode(["complaint": complaint])) }
        return lines.map { String(decoding: $0, as: UTF8.self) + "\n" }.joined()
    }
}
