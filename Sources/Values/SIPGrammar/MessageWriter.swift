package import Bytes

/// The functions of `MessageWriter` write responses and forwarded requests from the bytes of a received message.
///
/// Unedited header fields are copied byte for byte.

/// A header field that this program adds. The field's name is written exactly as spelled in ``AddedField``.
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

/// The changes to a forwarded request (RFC 3261 section 16.6); all other parts are copied unchanged.
package struct RequestEdits: Sendable {
    /// The new Request-URI.
    package var requestURI: ByteString
    /// The value of the proxy's own Via, such as `SIP/2.0/UDP host:5060;branch=...;rport`.
    package var via: ByteString
    /// The value of Max-Forwards in the forwarded request.
    package var maxForwards: UInt8
    /// The value of Max-Breadth in the forwarded request (RFC 5393); `nil` keeps the received field.
    package var maxBreadth: UInt32?
    /// The values of the new Record-Route fields, from top to bottom, which are added above the existing Record-Route
    /// fields.
    package var recordRoutes: [ByteString] = []
    /// Route values that replace *all* existing Route fields; `nil` keeps the existing fields.
    package var routes: [ByteString]?
    /// The parameters for the received topmost Via (RFC 3581): see ``SIPRequest/viaAddition(source:)``.
    package var topViaAddition = ViaAddition.none
    /// The header fields that are not copied.
    package var removed: [HeaderName] = []
    /// A filter that removes more header fields, for requests of untrusted peers.
    package var filter: HeaderFilter?
    /// The proxy's own realms in lower case, for which credentials are not forwarded.
    package var ownRealms: [ByteString] = []
    /// Whether the proxy removes bearer tokens from the request (RFC 8898).
    package var dropsTokens = false
    package var added: [AddedField] = []
    /// The index in the From value at which the forwarded part begins. With a hidden display name, the forwarded part
    /// begins after the name; 0 means the whole value.
    package var fromStart = 0
    /// Whether `pn-*` parameters, which are secrets of the device, stay in the Request-URI and the Contacts.
    package var keepsPushParameters = false

    package init(requestURI: ByteString, via: ByteString, maxForwards: UInt8) {
        self.requestURI = requestURI
        self.via = via
        self.maxForwards = maxForwards
    }
}

/// A request as the daemon sends it.
///
/// ACK and CANCEL repeat parts of the INVITE as *sent*, not as received (RFC 3261 sections 9.1 and 17.1.1.3).
package struct OutgoingRequest: Sendable {
    package let bytes: [UInt8]
    package let method: Method
    package let cseqNumber: UInt32
    /// The positions in `bytes` of the Request-URI, and of whole header fields with their line ends.
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

    /// Makes the ACK to a final response that is not 2xx (RFC 3261 section 17.1.1.3). The argument `to` is the To value
    /// of the final response.
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

    /// Makes the CANCEL of the request (RFC 3261 section 9.1), with Reason fields (RFC 3326).
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
