package import Bytes
import JSON

/// A name with a value, in a span, an event or a resource.
package struct TraceAttribute: Hashable, Sendable {
    package enum Value: Hashable, Sendable {
        case text(ByteString)
        case number(Int64)
    }

    package let key: StaticKey
    package let value: Value

    package init(_ key: StaticKey, _ value: Value) { (self.key, self.value) = (key, value) }
    package init(_ key: StaticKey, _ text: String) { self.init(key, .text(ByteString(text))) }
    package init(_ key: StaticKey, _ text: ByteString) { self.init(key, .text(text)) }
    package init(_ key: StaticKey, _ number: some BinaryInteger) { self.init(key, .number(Int64(clamping: number))) }

    /// A key that the source code contains, so that no key comes from outside.
    package struct StaticKey: Hashable, Sendable, ExpressibleByStringLiteral {
        let text: String
        package init(stringLiteral text: String) { self.text = text }
    }

    /// The maximum number of bytes of a text.
    package static let longestText = 256
}

/// A part of a trace: a step of a call with start and end, in nanoseconds since 1970.
package struct TraceSpan: Hashable, Sendable {
    /// The kind of a span, numbered as the protocol's `SpanKind`.
    package enum Kind: Int, Sendable {
        case `internal` = 1
        case server = 2
        case client = 3
    }

    package struct Event: Hashable, Sendable {
        package let name: String
        package let time: Int64
        package let attributes: [TraceAttribute]

        package init(_ name: String, at time: Int64, _ attributes: [TraceAttribute] = []) {
            (self.name, self.time, self.attributes) = (name, time, attributes)
        }
    }

    package let name: String
    package let kind: Kind
    package let trace: TraceID
    package let id: SpanID
    /// The span of which this span is a part; `nil` for the root of the trace.
    package let parent: SpanID?
    package let start: Int64
    package let end: Int64
    package var attributes: [TraceAttribute] = []
    package var events: [Event] = []
    /// Why the step failed, if it did.
    package var failure: String?

    /// If the end is before the start, the span ends at its start.
    package init(
        _ name: String, _ kind: Kind, in trace: TraceID, id: SpanID, parent: SpanID? = nil, from start: Int64,
        to end: Int64
    ) {
        (self.name, self.kind, self.trace, self.id, self.parent) = (name, kind, trace, id, parent)
        self.start = max(start, 0)
        self.end = max(start, end, 0)
    }

    /// The span in the protocol's JSON: ids in hexadecimal, 64-bit numbers as text, and kinds as numbers.
    package var json: [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(1024)
        out += "{\"traceId\":\"\(trace)\",\"spanId\":\"\(id)\"".utf8
        if let parent { out += ",\"parentSpanId\":\"\(parent)\"".utf8 }
        out += ",\"name\":".utf8
        out.append(jsonString: name, atMost: TraceAttribute.longestText)
        out += ",\"kind\":\(kind.rawValue)".utf8
        out += ",\"startTimeUnixNano\":\"\(start)\",\"endTimeUnixNano\":\"\(end)\"".utf8
        if !attributes.isEmpty { out.append(attributes) }
        if !events.isEmpty {
            out += ",\"events\":[".utf8
            for (index, event) in events.enumerated() {
                if index > 0 { out += ",".utf8 }
                out += "{\"timeUnixNano\":\"\(max(event.time, 0))\",\"name\":".utf8
                out.append(jsonString: event.name, atMost: TraceAttribute.longestText)
                if !event.attributes.isEmpty { out.append(event.attributes) }
                out += "}".utf8
            }
            out += "]".utf8
        }
        if let failure {
            // In a span's status, the number 2 means "error".
            out += ",\"status\":{\"code\":2,\"message\":".utf8
            out.append(jsonString: failure, atMost: TraceAttribute.longestText)
            out += "}".utf8
        }
        out += "}".utf8
        return out
    }
}

extension [UInt8] {
    /// Appends the member `attributes`, after a comma.
    mutating func append(_ attributes: [TraceAttribute]) {
        self += ",".utf8
        append(member: attributes)
    }

    mutating func append(member attributes: [TraceAttribute]) {
        self += "\"attributes\":[".utf8
        for (index, attribute) in attributes.enumerated() {
            if index > 0 { self += ",".utf8 }
            self += "{\"key\":".utf8
            append(jsonString: attribute.key.text)
            switch attribute.value {
            case .text(let text):
                self += ",\"value\":{\"stringValue\":".utf8
                append(jsonString: text, atMost: TraceAttribute.longestText)
            case .number(let number): self += ",\"value\":{\"intValue\":\"\(number)\"".utf8
            }
            self += "}}".utf8
        }
        self += "]".utf8
    }
}
