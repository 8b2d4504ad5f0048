package import Bytes
package import SIPGrammar
package import SIPTransactions

/// Checks whether a request can be forwarded, in the order of RFC 3261 section 16.3.
///
/// The SIP parser has checked the syntax of the request before. The sender's password is checked later, because the
/// check depends on the route.
package enum RequestValidation {
    /// The refusal of a request; `nil` for an accepted request.
    ///
    /// A request to this daemon is accepted even with Max-Forwards 0, but only with option tags from ``extensions`` in
    /// Require.
    package static func check(
        _ request: SIPRequest, fromTrusted: Bool, isForUs: Bool, branchKey: BranchKey
    ) -> Refusal? {
        switch request.uri.scheme {
        case .sip, .sips, .tel: break
        case .other: return Refusal(416)
        }
        if request.maxForwards == 0, !isForUs { return Refusal(.tooManyHops) }
        if let breadth = request.frame.firstValue(of: .maxBreadth),
            breadth.isEmpty || !breadth.allSatisfy(\.isASCIIDigit)
        {
            return Refusal(.badRequest)
        }
        if isLooped(request, fromTrusted: fromTrusted, branchKey) { return Refusal(.loopDetected) }
        if let unsupported = unsupported(in: .proxyRequire, of: request, known: []) { return unsupported }
        guard isForUs else { return nil }
        return unsupported(in: .require, of: request, known: extensions)
    }

    package struct Refusal {
        package let status: Status
        package fileprivate(set) var fields: [AddedField] = []

        package init(_ status: Status) { self.status = status }
    }

    /// The option tags that are accepted in the Require of a request to this daemon.
    static let extensions: [StaticString] = ["path", "outbound", "gruu"]

    /// The refusal with status 420 that lists the unknown option tags (RFC 3261 sections 8.2.2.3 and 16.3 item 5).
    private static func unsupported(
        in name: HeaderName, of request: SIPRequest, known: [StaticString]
    ) -> Refusal? {
        guard request.frame.contains(name) else { return nil }
        var unknown: [UInt8] = []
        for row in request.frame.values(of: name) {
            for tag in row.array.split(separator: UInt8(ascii: ",")) {
                let tag = ByteString(tag.filter { $0 > UInt8(ascii: " ") })
                guard !tag.isEmpty, !known.contains(where: { tag.equalsIgnoringCase($0) }) else { continue }
                if !unknown.isEmpty { unknown.append(", ") }
                unknown.append(tag)
            }
        }
        guard !unknown.isEmpty else { return nil }
        var refusal = Refusal(.badExtension)
        refusal.fields = [AddedField("Unsupported", ByteString(unknown))]
        return refusal
    }

    /// Whether the request is in a loop, because it has passed this daemon before with the same routing values (RFC
    /// 5393 section 4.2).
    ///
    /// One of the Vias is then the daemon's own, and has the loop hash of the present request.
    private static func isLooped(
        _ request: SIPRequest, fromTrusted: Bool, _ branchKey: BranchKey
    ) -> Bool {
        guard request.frame.count(of: .via) > 1 else { return false }
        let vias = request.frame.values(of: .via)
        let hash = loopHash(request, fromTrusted: fromTrusted)
        return vias.contains { via in
            guard let branch = branch(in: via) else { return false }
            return branchKey.loopHash(inBranch: branch) == hash
        }
    }

    /// The branch parameter in the unparsed value of a Via.
    ///
    /// A plain text search is enough, because the daemon's own Vias have no quotes or folds.
    package static func branch(in via: ByteString) -> ByteString? {
        let key: StaticString = "branch=z9hG4bK"
        guard via.count > key.utf8CodeUnitCount else { return nil }
        for start in 0...(via.count - key.utf8CodeUnitCount) where via[start..<start + key.utf8CodeUnitCount] == key {
            var end = start + key.utf8CodeUnitCount
            while end < via.count, via[end] != UInt8(ascii: ";"), via[end] != UInt8(ascii: ","),
                via[end] != UInt8(ascii: " ")
            {
                end += 1
            }
            return via[start + 7..<end]
        }
        return nil
    }

    /// A hash of all values that decide where a request is sent (RFC 3261 section 16.6 item 8).
    ///
    /// The hash includes whether the sender is trusted, because a phone's INVITE can come back from the PBX. The INVITE
    /// is then routed differently.
    package static func loopHash(_ request: SIPRequest, fromTrusted: Bool) -> UInt64 {
        var hash = FNV1a()
        hash.mix(fromTrusted ? 1 : 0)
        hash.mix(request.uri.text)
        hash.mix(request.from.tag ?? .empty)
        hash.mix(request.to.tag ?? .empty)
        hash.mix(request.callID)
        hash.mix(UInt64(request.cseq.number))
        request.frame.forEachValue(of: .route) { hash.mix($0) }
        request.frame.forEachValue(of: .proxyAuthorization) { hash.mix($0) }
        return hash.value
    }
}
