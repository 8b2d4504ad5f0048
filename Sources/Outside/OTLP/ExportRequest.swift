import JSON

/// Writes requests of the OpenTelemetry protocol over HTTP (OTLP/HTTP) with JSON: `ExportTraceServiceRequest`.
package struct ExportRequest: Hashable, Sendable {
    private let start: [UInt8]
    private static let end = Array("]}]}]}".utf8)

    /// - Parameters:
    ///   - resource: the attributes of the program that makes the spans.
    ///   - scope: the name of the library that makes the spans.
    ///   - version: the version of the library.
    package init(resource: [TraceAttribute], scope: String, version: String) {
        var start = Array("{\"resourceSpans\":[{\"resource\":{".utf8)
        start.append(member: resource)
        start += "},\"scopeSpans\":[{\"scope\":{\"name\":".utf8
        start.append(jsonString: scope)
        start += ",\"version\":".utf8
        start.append(jsonString: version)
        start += "},\"spans\":[".utf8
        self.start = start
    }

    /// The body of a request with spans, each in the form of ``TraceSpan/json``.
    package func body(_ spans: [[UInt8]]) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(spans.reduce(start.count + Self.end.count) { $0 + $1.count + 1 })
        out += start
        for (index, span) in spans.enumerated() {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            out += span
        }
        out += Self.end
        return out
    }
}
