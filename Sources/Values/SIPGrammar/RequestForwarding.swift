import Bytes

// The functions of `RequestForwarding` write the request that the proxy forwards (RFC 3261 section 16.6).

extension SIPRequest {
    /// Creates the request for the next hop.
    ///
    /// The proxy's own Via comes first. New Record-Route and Route fields follow, then the received fields in their
    /// order, added fields, and Content-Length.
    package func forwarded(_ edits: RequestEdits) -> OutgoingRequest {
        var places = CopiedPlaces()
        let bytes = [UInt8](capacity: frame.bytes.count + edits.size) { places = append(edits, to: &$0) }
        return OutgoingRequest(
            bytes: bytes, method: method, cseqNumber: cseq.number, requestURI: places.uri, viaRow: places.via,
            fromRow: places.from, toRow: places.to, callIDRow: places.callID, routeRows: places.routes)
    }

    private func append(_ edits: RequestEdits, to out: inout ByteSink) -> CopiedPlaces {
        var places = CopiedPlaces()
        places.uri = appendStartLine(edits, to: &out)
        places.via = out.append(row: "Via: ", edits.via)
        for value in edits.recordRoutes { out.append(row: "Record-Route: ", value) }
        for value in edits.routes ?? [] { places.routes.append(out.append(row: "Route: ", value)) }
        if !frame.contains(.maxForwards) { out.append(maxForwards: edits.maxForwards) }
        if let breadth = edits.maxBreadth { out.append(maxBreadth: breadth) }
        frame.appendRows(edits, to: &out, &places)
        for field in edits.added { out.append(field) }
        out.append(contentLength: frame.bytes.count - frame.bodyStart)
        out.append(frame.bytes, frame.bodyStart..<frame.bytes.count)
        return places
    }

    /// Appends the start line, and returns the range of the Request-URI in the output.
    private func appendStartLine(_ edits: RequestEdits, to out: inout ByteSink) -> Range<Int> {
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
}

extension RequestEdits {
    /// The maximum number of bytes that the edits add to the message.
    fileprivate var size: Int {
        var size = 128 + requestURI.count + via.count + ViaAddition.longest
        for value in recordRoutes { size += value.count + 16 }
        for value in routes ?? [] { size += value.count + 9 }
        for field in added { size += field.name.utf8CodeUnitCount + field.value.count + 4 }
        return size
    }
}

/// The positions in the forwarded request of the parts that ACK and CANCEL repeat.
private struct CopiedPlaces {
    var uri = 0..<0
    var via = 0..<0
    var from = 0..<0
    var to = 0..<0
    var callID = 0..<0
    var routes: [Range<Int>] = []
}

extension ByteSink {
    @discardableResult
    fileprivate mutating func append(row name: StaticString, _ value: ByteString) -> Range<Int> {
        let start = count
        append(name)
        append(value)
        append("\r\n")
        return start..<count
    }

    fileprivate mutating func append(maxForwards: UInt8) {
        append("Max-Forwards: ")
        append(decimal: maxForwards)
        append("\r\n")
    }

    fileprivate mutating func append(maxBreadth: UInt32) {
        append("Max-Breadth: ")
        append(decimal: maxBreadth)
        append("\r\n")
    }
}

extension MessageFrame {
    /// Appends the received header fields with the edits applied.
    fileprivate func appendRows(_ edits: RequestEdits, to out: inout ByteSink, _ places: inout CopiedPlaces) {
        var rows = RowRun(bytes)
        var isTopVia = true
        for (index, field) in fields.enumerated() where !field.row.isEmpty {
            guard edits.removed.isEmpty || !edits.removed.contains(field.name) else { continue }
            if let filter = edits.filter, filter.removes(field, of: bytes) { continue }
            let start = out.count + rows.count
            switch field.name {
            case .contentLength: break
            case .maxForwards:
                rows.end(&out)
                out.append(maxForwards: edits.maxForwards)
            case .via where isTopVia:
                isTopVia = false
                append(viaRow: field, addition: edits.topViaAddition, in: &rows, to: &out)
            case .route where edits.routes != nil: break
            case .maxBreadth where edits.maxBreadth != nil: break
            case .proxyAuthorization, .authorization:
                guard !credentials(field, areFor: edits.ownRealms), !edits.dropsTokens || !bytes[field.value].isBearer
                else { break }
                rows.append(field.row, to: &out)
            case .from where edits.fromStart > 0:
                rows.append(field.row.lowerBound..<field.value.lowerBound, to: &out)
                rows.append(field.value.lowerBound + edits.fromStart..<field.row.upperBound, to: &out)
            case .contact where !edits.keepsPushParameters: append(contactRowAt: index, in: &rows, to: &out)
            default: rows.append(field.row, to: &out)
            }
            let end = out.count + rows.count
            switch field.name {
            case .from: places.from = start..<end
            case .to: places.to = start..<end
            case .callID: places.callID = start..<end
            case .route where edits.routes == nil: places.routes.append(start..<end)
            default: break
            }
        }
        rows.end(&out)
    }

    /// Appends the Contact field whose first value is `fields[index]`, without `pn-*` parameters.
    func append(contactRowAt index: Int, in rows: inout RowRun, to out: inout ByteSink) {
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
