package import Timekeeping

// Domains that come, change or go while the daemon runs.

extension UpstreamAgent {
    /// Adds a domain. Numbers are not used again, because a late answer may name a former one.
    package mutating func domainAdded(_ domain: UpstreamDomain) -> UpstreamNumber {
        stands.append(UpstreamStand(setup: domain))
        return UpstreamNumber(UInt16(clamping: stands.count - 1))
    }

    /// Changes the times, the rate or the Path of a domain.
    package mutating func domainChanged(_ upstream: UpstreamNumber, to domain: UpstreamDomain, now: Moment) {
        guard stands.indices.contains(upstream.index) else { return }
        stands[upstream.index].change(domain)
    }

    /// The settings no longer name the domain, or name another PBX for it. Its users are signed out.
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
