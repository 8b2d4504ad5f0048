/// The shares that callers have of a resource, which belongs to one callee or to all (T32).
///
/// Each caller has a maximum share. A part is reserved for trusted peers, so that all other callers together cannot use
/// it. The same rule applies to pushes, held calls, waiting requests, missed calls, messages and records.
package struct FairShare: Hashable, Sendable {
    /// The whole amount of the resource.
    package let whole: Int
    package let ofOne: Int
    /// The maximum amount for all untrusted callers together.
    package let ofUntrusted: Int

    /// Makes shares of a resource.
    ///
    /// - Parameters:
    ///   - whole: the whole amount.
    ///   - ofOne: the maximum amount for one caller.
    ///   - ofUntrusted: the maximum amount for all untrusted callers together.
    package init(of whole: Int, ofOne: Int, ofUntrusted: Int) {
        self.whole = whole
        self.ofOne = min(max(ofOne, 1), whole)
        self.ofUntrusted = min(max(ofUntrusted, 1), whole)
    }

    /// The amounts of the resource that are in use.
    package struct Taken: Hashable, Sendable {
        package var all, untrusted, own: Int

        /// The amounts in use.
        ///
        /// - Parameters:
        ///   - all: the amount in use by all callers.
        ///   - untrusted: the amount in use by all untrusted callers.
        ///   - own: the amount in use by the requesting caller.
        package init(all: Int, untrusted: Int, own: Int) {
            self.all = all
            self.untrusted = untrusted
            self.own = own
        }
    }

    /// Why a request exceeds the shares.
    package enum Refusal: Hashable, Sendable {
        /// The caller has used up its share.
        case callerFull
        /// Nothing is left, or the rest is reserved for trusted peers.
        case allFull
    }

    /// Decides whether a request fits.
    ///
    /// - Parameters:
    ///   - amount: the requested amount.
    ///   - taken: the amounts in use.
    ///   - isTrusted: whether a trusted peer makes the request.
    /// - Returns: why the request is refused; `nil` if it fits.
    package func refusal(of amount: Int = 1, beside taken: Taken, isTrusted: Bool) -> Refusal? {
        if taken.own + amount > ofOne { return .callerFull }
        if taken.all + amount > whole || !isTrusted && taken.untrusted + amount > ofUntrusted { return .allFull }
        return nil
    }

    /// Selects an element to drop when there are too many. It is the oldest element of the caller with the most
    /// elements. Among callers with equally many, the oldest element decides.
    ///
    /// - Parameters:
    ///   - callers: the caller of each element, oldest element first.
    ///   - isTrusted: whether a caller is a trusted peer.
    ///   - mayGo: whether the element at this index may be dropped.
    /// - Returns: the index of the element; `nil` if none may be dropped.
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
