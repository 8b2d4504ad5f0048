import Bytes

// Forwarding a request (RFC 3261 section 16.6): rows are copied, the few edited ones written anew.

extension SIPRequest {
    /// The request as it goes to the next hop.
    ///
    /// Our Via stands on top, new Record-Route and Route rows follow, then the received rows in their order, the added
    /// fields, and Content-Length. What `edits` does not name is copied byte for byte.
    package func forwarded(_ edits: RequestEdits) -> OutgoingRequest {
        var copy = RequestCopy(method: method, capacity: frame.bytes.count + edits.size)
        let uri = copy.appendStartLine(edits)
        let viaRow = copy.append("Via: ", edits.via)
        for value in edits.recordRoutes { copy.append("Record-Route: ", value) }
        for value in edits.routes ?? [] { copy.routeRows.append(copy.append("Route: ", value)) }
        if !frame.contains(.maxForwards) { copy.append(maxForwards: edits.maxForwards) }
        if let breadth = edits.maxBreadth { copy.append(maxBreadth: breadth) }
        copy.appendRows(of: frame, edits)
        for field in edits.added { copy.out.append(field) }
        copy.out.append(contentLength: frame.bytes.count - frame.bodyStart)
        copy.out.append(frame.bytes, frame.bodyStart..<frame.bytes.count)
        return OutgoingRequest(
            bytes: copy.out, method: method, cseqNumber: cseq.number, requestURI: uri, viaRow: viaRow,
            fromRow: copy.fromRow, toRow: copy.toRow, callIDRow: copy.callIDRow, routeRows: copy.routeRows)
    }
}

extension RequestEdits {
    /// An upper bound of what the edits add to the message.
    fileprivate var size: Int {
        var size = 128 + requestURI.count + via.count + ViaAddition.longest
        for value in recordRoutes { size += value.count + 16 }
        for value in routes ?? [] { size += value.count + 9 }
        for field in added { size += field.name.utf8CodeUnitCount + field.value.count + 4 }
        return size
    }
}

/// The outgoing bytes while they grow, and the places of the rows that ACK and CANCEL repeat.
private struct RequestCopy {
    let method: Method
    var out: [UInt8] = []
    var fromRow = 0..<0
    var toRow = 0..<0
    var callIDRow = 0..<0
    var routeRows: [Range<Int>] = []
    private var isTopVia = true

    init(method: Method, capacity: Int) {
        self.method = method
        out.reserveCapacity(capacity)
    }

    /// Appends the start line; returns the place of the Request-URI.
    mutating func appendStartLine(_ edits: RequestEdits) -> Range<Int> {
        method.append(to: &out)
        out.append(" ")
        let start = out.count
        if edits.keepsPushParameters {
            out.append(edits.requestURI)
        } else {
            out.append(withoutPushParameters: edits.requestURI)
        }
        let end = out.count
        out.append(" SIP/2.0\r\n")
        return start..<end
    }

    @discardableResult
    mutating func append(_ name: StaticString, _ value: ByteString) -> Range<Int> {
        let start = out.count
        out.append(name)
        out.append(value)
        out.append("\r\n")
        return start..<out.count
    }

    mutating func append(maxForwards: UInt8) {
        out.append("Max-Forwards: ")
        out.append(decimal: maxForwards)
        out.append("\r\n")
    }

    mutating func append(maxBreadth: UInt32) {
        out.append("Max-Breadth: ")
        out.append(decimal: maxBreadth)
        out.append("\r\n")
    }

    mutating func appendRows(of frame: MessageFrame, _ edits: RequestEdits) {
        var rows = RowRun(frame.bytes)
        for (index, field) in frame.fields.enumerated() where !field.row.isEmpty {
            guard edits.removed.isEmpty || !edits.removed.contains(field.name) else { continue }
            if let filter = edits.filter, filter.removes(field, of: frame.bytes) { continue }
            let start = out.count + rows.count
            switch field.name {
            case .contentLength: break
            case .maxForwards:
                rows.end(&out)
                append(maxForwards: edits.maxForwards)
            case .via where isTopVia:
                isTopVia = false
                frame.append(viaRow: field, addition: edits.topViaAddition, in: &rows, to: &out)
            case .route where edits.routes != nil: break
            case .maxBreadth where edits.maxBreadth != nil: break
            case .proxyAuthorization where frame.credentials(field, areFor: edits.ownRealms): break
            case .authorization where frame.credentials(field, areFor: edits.ownRealms): break
            case .contact where !edits.keepsPushParameters: frame.append(contactRowAt: index, in: &rows, to: &out)
            default: rows.append(field.row, to: &out)
            }
            let end = out.count + rows.count
            switch field.name {
            case .from: fromRow = start..<end
            case .to: toRow = start..<end
            case .callID: callIDRow = start..<end
            case .route where edits.routes == nil: routeRows.append(start..<end)
            default: break
            }
        }
        rows.end(&out)
    }
}

extension MessageFrame {
    /// Appends the Contact row whose first value is `fields[index]`, without `pn-*` parameters.
    func append(contactRowAt index: Int, in rows: inout RowRun, to out: inout [UInt8]) {
        let row = fields[index].row
        var from = row.lowerBound
        var next = index
        repeat {
            let value = fields[next].value
            bytes[value].withSpan { span in
                var search = PushParameterSearch()
                while let found = search.next(span) {
                    rows.append(from..<value.lowerBound + found.lowerBound, to: &out)
                    from = value.lowerBound + found.upperBound
                }
            }
            next += 1
        } while next < fields.count && fields[next].row.isEmpty && fields[next].name == .contact
        rows.append(from..<row.upperBound, to: &out)
    }
}
