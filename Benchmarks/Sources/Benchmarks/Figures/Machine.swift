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

    /// Finds the processor in the text of `/proc/cpuinfo`: its name, family and model. Virtual machines on processors
    /// of several generations have the same name.
    package static func processor(of information: String) -> String {
        var fields: [String: String] = [:]
        for line in information.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
            if parts.count == 2, fields[parts[0]] == nil { fields[parts[0]] = parts[1] }
        }
        let name = fields["model name"] ?? "unknown"
        guard let family = fields["cpu family"], let model = fields["model"] else { return name }
        return "\(name), family \(family), model \(model)"
    }

    package var text: String {
        "\(cores) cores (\(processor)), Linux \(kernel); load and daemon share the machine"
    }
}
