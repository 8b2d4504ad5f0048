package import Addressing
package import PushDelivery
package import Timekeeping

/// The position of a search through all bindings; the search is made in steps. Bindings can be added and removed
/// between two steps of the search.
package struct BindingCursor: Hashable, Sendable {
    fileprivate var slot: UInt32 = 0

    package init() {}
}

extension BindingTable {
    /// A device that a push can wake, with its push token.
    package struct PushDevice: Sendable {
        package let id: DeviceID
        package let token: PushToken
        /// The time at which the device last registered its push token.
        package let registeredAt: UnixTime
    }

    /// Calls `body` with the devices that Apple's pushes can wake, in one part of the table: see
    /// ``forEachDevice(of:with:from:limit:_:)``.
    ///
    /// If the REGISTER of a device is being stored, the device is omitted, because the REGISTER is newer than the
    /// caller's data.
    package func forEachAppleDevice(
        from cursor: inout BindingCursor, limit: Int, _ body: (PushDevice) -> Void
    ) -> Bool {
        let providers = ProviderSet([.apns, .apnsDevelopment])
        return forEachDevice(of: providers, with: [], from: &cursor, limit: limit) { device in
            if let slot = slot(of: device.id), !self[slot].marks.contains(.isBusy) { body(device) }
        }
    }

    /// Calls `body` with the devices that pushes of the given providers can wake, in one part of the table.
    ///
    /// - Parameters:
    ///   - providers: the providers of the wanted devices; switched-off providers are ignored.
    ///   - words: parts of the wanted tokens that need no escapes in a URI, in upper or lower case; an empty list means
    ///     all devices.
    ///   - cursor: the position at which the search begins; the search moves the cursor behind the examined bindings.
    ///   - limit: the maximum number of tokens to read; skipping a hundred bindings, or searching a contact for ten
    ///     words, is treated as one token.
    ///   - body: gets each found device; the token of a found device may still differ from the wanted tokens.
    /// - Returns: whether bindings remain behind the cursor.
    package func forEachDevice(
        of providers: ProviderSet, with words: [[UInt8]], from cursor: inout BindingCursor, limit: Int,
        _ body: (PushDevice) -> Void
    ) -> Bool {
        var cost = 0
        while cursor.slot < slots.upperBound, cost < limit * 100 {
            let slot = cursor.slot
            cursor.slot += 1
            cost += 1
            let provider = self[slot].provider
            // A vacant slot is skipped, because it has the provider number 0, which no set of providers contains.
            guard providers.contains(number: provider), enabled.contains(number: provider) else { continue }
            if !words.isEmpty {
                cost += 10 * words.count
                guard mayHold(words, at: slot) else { continue }
            }
            cost += 99
            let (id, date) = (self[slot].id, self[slot].registeredAt)
            guard let token = pushToken(of: id) else { continue }
            body(PushDevice(id: id, token: token, registeredAt: date))
        }
        return cursor.slot < slots.upperBound
    }
}

extension BindingTable {
    /// Whether the contact may contain one of the wanted words. Each part of the contact is searched separately,
    /// because a token is never split over two parts.
    private func mayHold(_ words: [[UInt8]], at slot: UInt32) -> Bool {
        !allContactParts(at: slot) { part in !part.mayHold(words) }
    }
}

extension Span<UInt8> {
    fileprivate func mayHold(_ words: [[UInt8]]) -> Bool {
        for word in words where word.count <= count && !word.isEmpty {
            let first = word[0] | 0x20
            for start in 0...count - word.count where self[start] | 0x20 == first {
                if word.indices.allSatisfy({ self[start + $0] | 0x20 == word[$0] | 0x20 }) { return true }
            }
        }
        return false
    }
}

extension BindingTable {
    /// The user of a device; `nil` if the device is unknown.
    package func aor(of device: DeviceID) -> AddressOfRecord? { slot(of: device).map { aor(at: $0) } }

    /// The time at which a wakeable device of the user last registered; `nil` if the user has no wakeable device.
    package func lastSign(ofWakeable aor: AddressOfRecord) -> UnixTime? {
        var last: UnixTime?
        forEachSlot(of: aor) { slot in
            guard enabled.contains(number: self[slot].provider) else { return }
            last = max(last ?? self[slot].registeredAt, self[slot].registeredAt)
        }
        return last
    }
}
