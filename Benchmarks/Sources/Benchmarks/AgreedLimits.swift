import Foundation

/// The highest permitted count of each measured step, read from lines of the form `NAME NUMBER` with comments after
/// `#`.
package struct AgreedLimits: Hashable, Sendable {
    package let limits: [String: Double]

    package init(_ text: String) throws(BenchmarkError) {
        var limits: [String: Double] = [:]
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let words = (line.split(separator: "#", omittingEmptySubsequences: false).first ?? "").split(separator: " ")
            if words.isEmpty { continue }
            guard words.count == 2, let limit = Double(words[1]), limits[String(words[0])] == nil else {
                throw BenchmarkError("limits, line \(index + 1): expected a new name and a number, found: \(line)")
            }
            limits[String(words[0])] = limit
        }
        self.limits = limits
    }

    /// Reads the highest permitted counts from a file.
    init(contentsOf file: String) throws(BenchmarkError) {
        guard let text = try? String(contentsOfFile: file, encoding: .utf8) else {
            throw BenchmarkError("\(file) cannot be read")
        }
        try self.init(text)
    }

    /// Returns a complaint about each measured count that exceeds its limit, has no limit, or is missing.
    package func complaints(about counts: [(name: String, count: Double)], of unit: String) -> [String] {
        var complaints: [String] = []
        for (name, count) in counts {
            if let limit = limits[name] {
                guard count > limit else { continue }
                complaints.append("\(name): \(Figure.text(count)) \(unit), the limit is \(Figure.text(limit))")
            } else {
                complaints.append("\(name): \(Figure.text(count)) \(unit), and there is no limit for it")
            }
        }
        for name in limits.keys.sorted() where !counts.contains(where: { $0.name == name }) {
            complaints.append("\(name): there is a limit, but nothing of that name was counted")
        }
        return complaints
    }
}
