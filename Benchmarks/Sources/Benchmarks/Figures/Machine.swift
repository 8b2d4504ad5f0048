import Foundation

/// The machine on which the benchmarks ran; results of different machines cannot be compared.
package struct Machine: Sendable, Encodable {
    package let cores: Int
    package let processor: String
    package let kernel: String

    package init() {
        cores = ProcessInfo.processInfo.activeProcessorCount
        let kernel = try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8)
        self.kernel = kernel?.trimmingCharacters(in: .newlines) ?? "unknown"
        processor = Self.processor(of: (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)) ?? "")
    }

    /// Finds the processor model in the text of `/proc/cpuinfo`.
    static func processor(of information: String) -> String {
        let line = information.split(separator: "\n").first { $0.hasPrefix("model name") }
        return line?.split(separator: ":", maxSplits: 1).last?.trimmingCharacters(in: .whitespaces) ?? "unknown"
    }

    package var text: String {
        "\(cores) cores (\(processor)), Linux \(kernel); load and daemon share the machine"
    }
}
