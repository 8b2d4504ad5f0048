package import Bytes

/// One Via value (RFC 3261 section 20.42, RFC 3581): its text, and the positions of its parts.
package struct Via: Sendable {
    package let text: ByteString
    package let port: UInt16?
    /// Whether protocol, transport and sent-by have the simple form that nearly all Vias have.
    package let isPlain: Bool
    private let transportStart, transportEnd, hostStart, hostEnd, parametersPlace: UInt32
    private let branchStart, branchEnd: UInt32

    /// The transport as received, such as `UDP` or `tls-sctp`.
    package var transport: ByteString { text[Int(transportStart)..<Int(transportEnd)] }
    package var host: ByteString { text[Int(hostStart)..<Int(hostEnd)] }
    package var parameters: Parameters {
        parametersStart < text.count ? Parameters(text[parametersStart..<text.count]) : .none
    }
    /// The index of the first `;`, or the end of the value.
    package var parametersStart: Int { Int(parametersPlace) }
    package var branch: ByteString? { branchEnd > 0 ? text[Int(branchStart)..<Int(branchEnd)] : nil }

    /// Whether the parameter `rport` is present, with or without a value (RFC 3581 section 4).
    package let wantsResponsePort: Bool

    /// Finds the parts of a Via. Vias that are not plain are accepted here; the message reader decides whether they are
    /// valid.
    ///
    /// - Returns: the Via; `nil` unless the text has the form `SIP/2.0/transport host[:port]`, with white space allowed
    ///   around slashes and colon.
    package init?(_ text: ByteString) {
        guard let parts = text.withSpan({ ViaParts($0) }) else { return nil }
        self.text = text
        port = parts.port
        isPlain = parts.isPlain
        transportStart = UInt32(parts.transport.lowerBound)
        transportEnd = UInt32(parts.transport.upperBound)
        hostStart = UInt32(parts.host.lowerBound)
        hostEnd = UInt32(parts.host.upperBound)
        parametersPlace = UInt32(parts.end)
        branchStart = UInt32(parts.branch?.lowerBound ?? 0)
        branchEnd = UInt32(parts.branch?.upperBound ?? 0)
        wantsResponsePort = parts.hasResponsePort
    }
}

private struct ViaParts {
    var transport = 0..<0
    var host = 0..<0
    var port: UInt16?
    /// The index at which the parameters of the Via begin.
    var end: Int
    var isPlain = false
    var branch: Range<Int>?
    var hasResponsePort = false
    private var index = 0

    init?(_ bytes: Span<UInt8>) {
        end = bytes.firstIndex(of: UInt8(ascii: ";"), in: 0..<bytes.count) ?? bytes.count
        if end > 8, bytes.equalsIgnoringCase(0..<8, "sip/2.0/") {
            index = 8
            isPlain = !bytes[8].isLinearSpace
        }
        if !isPlain {
            index = 0
            guard skip(bytes, "sip"), skip(bytes, "/"), skip(bytes, "2.0"), skip(bytes, "/") else { return nil }
        }
        let start = index
        while index < end, bytes[index].isToken { index += 1 }
        guard index > start, index < end, bytes[index].isLinearSpace else { return nil }
        transport = start..<index
        guard readSentBy(bytes, bytes.trimmed(index..<end)) else { return nil }
        index = end
        var hasBranch = false
        while let parameter = ParameterPlace(bytes, from: &index) {
            if !hasBranch, bytes.equalsIgnoringCase(parameter.name, "branch") {
                hasBranch = true
                branch = parameter.value
            } else if bytes.equalsIgnoringCase(parameter.name, "rport") {
                hasResponsePort = true
            }
        }
    }

    private mutating func skip(_ bytes: Span<UInt8>, _ text: StaticString) -> Bool {
        let next = index + text.utf8CodeUnitCount
        guard next <= end, bytes.equalsIgnoringCase(index..<next, text) else { return false }
        index = bytes.skipSpace(from: next, to: end)
        return true
    }

    private mutating func readSentBy(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        guard !range.isEmpty else { return false }
        index = range.lowerBound
        if bytes[index] == UInt8(ascii: "[") {
            isPlain = false
            guard let close = bytes.firstIndex(of: UInt8(ascii: "]"), in: range),
                bytes.firstIndex(of: UInt8(ascii: ":"), in: index..<close) != nil
            else { return false }
            index = close + 1
        } else {
            index = bytes.hostEnd(from: index, to: range.upperBound)
        }
        host = range.lowerBound..<index
        guard !host.isEmpty else { return false }
        index = bytes.skipSpace(from: index, to: range.upperBound)
        guard index < range.upperBound else { return true }
        guard bytes[index] == UInt8(ascii: ":") else { return false }
        let digits = bytes.trimmed(index + 1..<range.upperBound)
        if digits.lowerBound > host.upperBound + 1 { isPlain = false }
        var number = 0
        for place in digits {
            guard bytes[place].isASCIIDigit, number < 65_536 else { return false }
            number = number * 10 + Int(bytes[place] - UInt8(ascii: "0"))
        }
        port = UInt16(exactly: number)
        return !digits.isEmpty && port != nil
    }
}
