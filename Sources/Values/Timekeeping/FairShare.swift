/// A caller's share of a resource that belongs to a callee, or to all (T32).
///
/// Each caller has a maximum share. Trusted peers have a part that all others together cannot use. The same rule
/// applies to pushes, held calls, waiting requests, missed calls, messages and records.
package struct FairShare: Hashable, Sendable {
    /// The whole amount.
    package let whole: Int
    package let ofOne: Int
    /// The maximum of all untrusted callers together.
    package let ofUntrusted: Int

    /// - Parameters:
    ///   - whole: the whole amount.
    ///   - ofOne: the maximum of one caller.
    ///   - ofUntrusted: the maximum of all untrusted callers together.
    package init(of whole: Int, ofOne: Int, ofUntrusted: Int) {
        self.whole = whole
        self.ofOne = min(max(ofOne, 1), whole)
        self.ofUntrusted = min(max(ofUntrusted, 1), whole)
    }

    /// The amounts in use.
    package struct Taken: Hashable, Sendable {
        package var all, untrusted, own: Int

        /// - Parameters:
        ///   - all: by everybody.
        ///   - untrusted: by all untrusted callers.
        ///   - own: by the requesting caller.
        package init(all: Int, untrusted: Int, own: Int) {
            self.all = all
            self.untrusted = untrusted
            self.own = own
        }
    }

    /// Why a request exceeds the limits.
    package enum Refusal: Hashable, Sendable {
        /// The caller has used its share.
        case callerFull
        /// The rest is reserved for trusted peers, or nothing is left.
        case allFull
    }

    /// - Parameters:
    ///   - amount: the requested amount.
    ///   - taken: the amounts in use.
    ///   - isTrusted: whether a trusted peer asks.
    /// - Returns: `nil` if the request fits.
    package func refusal(of amount: Int = 1, beside taken: Taken, isTrusted: Bool) -> Refusal? {
        if taken.own + amount > ofOne { return .callerFull }
        if taken.all + amount > whole || !isTrusted && taken.untrusted + amount > ofUntrusted { return .allFull }
        return nil
    }

    /// Selects an element to drop when the whole is exceeded: the oldest of the caller with the most elements; among
    /// equal callers, of the one with the oldest.
    ///
    /// - Parameters:
    ///   - callers: the owner of each element, oldest first.
    ///   - isTrusted: whether trusted peers caused them.
    ///   - mayGo: whether the element at a place may be dropped.
    /// - Returns: the place of the element; `nil` if none may be dropped.
    package func givesWay<Caller: Hashable>(
        among callers: some Collection<Caller>, isTrusted: (Caller) -> Bool, mayGo: (Int) -> Bool = { _ in true }
    ) -> Int? {
        var counts: [Caller: Int] = [:]
        var untrusted = 0
        for caller in callers {
            counts[caller, default: 0] += 1
            if !isTrusted(caller) { untrusted += 1 }
        }
        let sparesTrusted = untrusted > ofUntrusted
        var found: (place: Int, count: Int)?
        for (place, caller) in callers.enumerated() where mayGo(place) && !(sparesTrusted && isTrusted(caller)) {
            let count = counts[caller, default: 0]
            if count > found?.count ?? 0 { found = (place, count) }
        }
        return found?.place
    }
}
