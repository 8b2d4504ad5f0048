package import Bytes

/// Writes responses and forwarded requests from the bytes of a received message.
///
/// Nothing here parses: rows are copied unchanged, and edited rows are written again.

/// A header field that this program adds: its name in the spelling to write, and its value.
package struct AddedField: Sendable {
    package let name: StaticString
    package let value: ByteString

    package init(_ name: StaticString, _ value: ByteString) {
        self.name = name
        self.value = value
    }

    /// A Warning field (RFC 3261 section 20.43).
    package static func warning(_ code: Int, by host: ByteString, _ text: String) -> AddedField {
        AddedField("Warning", ByteString("\(code) \(host) \"\(text)\""))
    }
}

/// The changes to a request on the way through the proxy (RFC 3261 section 16.6). Everything else is copied.
package struct RequestEdits: Sendable {
    /// The new Request-URI text.
    package var requestURI: ByteString
    /// The Via value to put on top, for example `SIP/2.0/UDP host:5060;branch=...;rport`.
    package var via: ByteString
    /// The value of Max-Forwards to write, replacing or adding it.
    package var maxForwards: UInt8
    /// The value of Max-Breadth to write, replacing or adding it (RFC 5393); `nil` keeps the field.
    package var maxBreadth: UInt32?
    /// Record-Route values to put on top of the existing ones, the first one topmost. They do not contain the field's
    /// name.
    package var recordRoutes: [ByteString] = []
    /// Route values to write instead of *all* existing Route rows; `nil` keeps the rows.
    package var routes: [ByteString]?
    /// The addition to the request's own topmost Via (RFC 3581): see ``SIPRequest/viaAddition(source:)``.
    package var topViaAddition = ViaAddition.none
    /// Header fields to remove.
    package var removed: [HeaderName] = []
    /// A filter of further fields to remove; set for untrusted peers.
    package var filter: HeaderFilter?
    /// Realms, in lower case, whose credentials are removed.
    package var ownRealms: [ByteString] = []
    /// Fields to add at the end of the header.
    package var added: [AddedField] = []
    /// The start of the forwarded part of From, which drops a display name before it; 0 for the whole value.
    package var fromStart = 0
    /// Whether `pn-*` parameters stay in the Request-URI and the Contact rows. They are the device's secrets, so they
    /// are removed unless this is set.
    package var keepsPushParameters = false

    package init(requestURI: ByteString, via: ByteString, maxForwards: UInt8) {
        self.requestURI = requestURI
        self.via = via
        self.maxForwards = maxForwards
    }
}

/// A request as this program sends it, with the places of the parts that ACK and CANCEL repeat.
///
/// RFC 3261 sections 9.1 and 17.1.1.3: both are made from the request in the form in which it was *sent*.
package struct OutgoingRequest: Sendable {
    package let bytes: [UInt8]
    package let method: Method
    package let cseqNumber: UInt32
    /// Places in `bytes`: the Request-URI, and whole rows with their line ends.
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

    /// The ACK to a non-2xx final response (RFC 3261 section 17.1.1.3); `to` is the To value of that response.
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

    /// The CANCEL of this request (RFC 3261 section 9.1), with Reason rows (RFC 3326).
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

    /// Appends a part of the request, and returns its new place.
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
