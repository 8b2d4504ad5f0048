package import Timekeeping

// Handles domains that the settings add, change or remove while the daemon runs.

extension UpstreamAgent {
    /// Adds a domain with a new number. The number of a domain is never reused, because a late response may still
    /// belong to a removed domain.
    package mutating func domainAdded(_ domain: UpstreamDomain) -> UpstreamNumber {
        stands.append(UpstreamStand(setup: domain))
        return UpstreamNumber(UInt16(clamping: stands.count - 1))
    }

    /// Changes the times, the rate or the Path of a domain.
    package mutating func domainChanged(_ upstream: UpstreamNumber, to domain: UpstreamDomain, now: Moment) {
        guard stands.indices.contains(upstream.index) else { return }
        stands[upstream.index].change(domain)
    }

    /// Ends the registrations of a domain's users, because the settings no longer name the domain or name another PBX
    /// for the domain.
    package mutating func domainRemoved(_ upstream: UpstreamNumber, now: Moment, into orders: inout [UpstreamOrder]) {
        guard stands.indices.contains(upstream.index) else { return }
        stands[upstream.index].isRetired = true
        stands[upstream.index].watch.nextQuery = nil
        for place in records.indices
        where records[place].upstream == upstream.rawValue && !records[place].marks.contains(.isVacant) {
            end(UInt32(place), .domainRemoved, now: now, into: &orders)
        }
        pump(upstream.index, now: now, into: &orders)
    }
}
