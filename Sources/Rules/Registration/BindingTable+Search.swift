package import Addressing
package import PushDelivery
package import Timekeeping

/// The position of a search through all bindings. Bindings may be added and removed between the steps of the search.
package struct BindingCursor: Hashable, Sendable {
    fileprivate var slot: UInt32 = 0

    package init() {}
}

extension BindingTable {
    /// A device that a push can wake.
    package struct PushDevice: Sendable {
        package let id: DeviceID
        package let token: PushToken
        /// The time at which the device last registered this token.
        package let registeredAt: UnixTime
    }

    /// Visits the devices that Apple's pushes wake, in one part of the bindings, like
    /// ``forEachDevice(of:with:from:limit:_:)``.
    ///
    /// A device whose REGISTER is being persisted is left out, because the REGISTER is newer than the caller's data.
    package func forEachAppleDevice(
        from cursor: inout BindingCursor, limit: Int, _ body: (PushDevice) -> Void
    ) -> Bool {
        let providers = ProviderSet([.apns, .apnsDevelopment])
        return forEachDevice(of: providers, with: [], from: &cursor, limit: limit) { device in
            if let slot = slot(of: device.id), !self[slot].marks.contains(.isBusy) { body(device) }
        }
    }

    /// Visits the devices that certain providers' pushes wake, in one part of the bindings. Other bindings are not
    /// read.
    ///
    /// - Parameters:
    ///   - providers: the providers whose devices to visit. Providers that are switched off are ignored.
    ///   - words: parts of the wanted tokens that need no escapes in a URI. If not empty, only devices whose contacts
    ///     contain one of the words are visited; upper and lower case are equal.
    ///   - cursor: moved behind the visited bindings.
    ///   - limit: the maximum number of tokens to read. Skipping a hundred bindings counts as one token, and so does
    ///     a search for ten words.
    ///   - body: gets each device. Some of these devices may have other tokens than the wanted ones.
    /// - Returns: whether more bindings follow.
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
            // A slot without a binding has provider 0, which is in no set.
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
    /// Whether the contact contains one of the words. A token is never split over several parts of a contact.
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
    /// When a device of the user that can be woken has last registered; `nil` if the user has no such device.
    package func lastSign(ofWakeable aor: AddressOfRecord) -> UnixTime? {
        var last: UnixTime?
        forEachSlot(of: aor) { slot in
            guard enabled.contains(number: self[slot].provider) else { return }
            last = max(last ?? self[slot].registeredAt, self[slot].registeredAt)
        }
        return last
    }
}
