package import Bytes

/// Writes responses and forwarded requests from the bytes of a received message.
///
/// Nothing is parsed here. Most rows are copied unchanged; edited rows are written again.

/// A header field that this program adds. The name is written as it is spelled here.
package struct AddedField: Sendable {
    package let name: StaticString
    package let value: ByteString

    package init(_ name: StaticString, _ value: ByteString) {
        self.name = name
        self.value = value
    }

    /// Makes a Warning field (RFC 3261 section 20.43).
    package static func warning(_ code: Int, by host: ByteString, _ text: String) -> AddedField {
        AddedField("Warning", ByteString("\(code) \(host) \"\(text)\""))
    }
}

/// The changes to a request that the proxy forwards (RFC 3261 section 16.6). Everything else is copied.
package struct RequestEdits: Sendable {
    /// The text of the new Request-URI.
    package var requestURI: ByteString
    /// The Via value to put on top, for example `SIP/2.0/UDP host:5060;branch=...;rport`.
    package var via: ByteString
    /// The value of Max-Forwards. It replaces the field, or adds it if it is missing.
    package var maxForwards: UInt8
    /// The value of Max-Breadth (RFC 5393). It replaces the field, or adds it. With `nil` the field is kept.
    package var maxBreadth: UInt32?
    /// Record-Route values to put above the existing ones, without the field's name. The first value becomes the
    /// topmost.
    package var recordRoutes: [ByteString] = []
    /// Route values that replace *all* existing Route rows; `nil` keeps the rows.
    package var routes: [ByteString]?
    /// The addition to the topmost Via of the received request (RFC 3581), see ``SIPRequest/viaAddition(source:)``.
    package var topViaAddition = ViaAddition.none
    /// The names of header fields to remove.
    package var removed: [HeaderName] = []
    /// A filter of further fields to remove. It is set for requests of untrusted peers.
    package var filter: HeaderFilter?
    /// The realms, in lower case, whose credentials are removed.
    package var ownRealms: [ByteString] = []
    /// The fields to add at the end of the header.
    package var added: [AddedField] = []
    /// Where the forwarded part of From begins. A display name before this index is dropped. 0 for the whole value.
    package var fromStart = 0
    /// Whether `pn-*` parameters stay in the Request-URI and the Contact rows. They are secrets of the device, so they
    /// are normally removed.
    package var keepsPushParameters = false

    package init(requestURI: ByteString, via: ByteString, maxForwards: UInt8) {
        self.requestURI = requestURI
        self.via = via
        self.maxForwards = maxForwards
    }
}

/// A request as this program sends it, with the places of the parts that ACK and CANCEL repeat.
///
/// Both are made from the request as it was *sent* (RFC 3261 sections 9.1 and 17.1.1.3).
package struct OutgoingRequest: Sendable {
    package let bytes: [UInt8]
    package let method: Method
    package let cseqNumber: UInt32
    /// Ranges in `bytes`: the Request-URI, and whole rows with their line ends.
    package let requestURI: Range<Int>
    package let viaRow, fromRow, toRow, callIDRow: Range<Int>
    package let routeRows: [Range<Int>]

    package init(
        bytes: [UInt8], method: Method, cseqNumber: UInt32, requestURI: Range<Int>, viaRow: Range<Int>,
        fromRow: Range<Int>, toRow: Range<Int>, callIDRow: Range<Int>, routeRows: [Range<Int>]
    ) {
        self.bytes = bytes
        self.method = method
        self.cseqNumber = cseqNumber
        self.requestURI = requestURI
        self.viaRow = viaRow
        self.fromRow = fromRow
        self.toRow = toRow
        self.callIDRow = callIDRow
        self.routeRows = routeRows
    }

    /// Makes the ACK to a final response other than 2xx (RFC 3261 section 17.1.1.3). `to` is the To value of that
    /// response.
    package func acknowledgement(to: ByteString) -> [UInt8] {
        [UInt8](capacity: 512) { out in
            appendStartLine("ACK", to: &out)
            append(viaRow, to: &out)
            for row in routeRows { append(row, to: &out) }
            append(fromRow, to: &out)
            out.append("To: ")
            out.append(to)
            out.append("\r\n")
            append(callIDRow, to: &out)
            finish(&out, method: "ACK", reasons: [])
        }
    }

    /// Makes the CANCEL of this request (RFC 3261 section 9.1), with Reason rows (RFC 3326).
    package func cancellation(reasons: [ByteString]) -> OutgoingRequest {
        let uri = 7..<7 + requestURI.count
        var (via, from, to, callID, routes) = (0..<0, 0..<0, 0..<0, 0..<0, [Range<Int>]())
        let out = [UInt8](capacity: 512) { out in
            appendStartLine("CANCEL", to: &out)
            via = append(viaRow, to: &out)
            from = append(fromRow, to: &out)
            to = append(toRow, to: &out)
            callID = append(callIDRow, to: &out)
            routes = routeRows.map { append($0, to: &out) }
            finish(&out, method: "CANCEL", reasons: reasons)
        }
        return OutgoingRequest(
            bytes: out, method: .cancel, cseqNumber: cseqNumber, requestURI: uri, viaRow: via, fromRow: from,
            toRow: to, callIDRow: callID, routeRows: routes)
    }

    private func appendStartLine(_ method: StaticString, to out: inout ByteSink) {
        out.append(method)
        out.append(" ")
        append(requestURI, to: &out)
        out.append(" SIP/2.0\r\n")
    }

    /// Appends a part of the request, and returns its range in the output.
    @discardableResult
    private func append(_ part: Range<Int>, to out: inout ByteSink) -> Range<Int> {
        let start = out.count
        out.append(bytes.span.extracting(part))
        return start..<out.count
    }

    private func finish(_ out: inout ByteSink, method: StaticString, reasons: [ByteString]) {
        out.append("CSeq: ")
        out.append(decimal: cseqNumber)
        out.append(" ")
        out.append(method)
        out.append("\r\nMax-Forwards: 70\r\n")
        for reason in reasons { out.append("Reason", reason) }
        out.append("Content-Length: 0\r\n\r\n")
    }
}
