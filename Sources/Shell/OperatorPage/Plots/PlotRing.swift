import Telemetry
import Timekeeping

/// The values of the last intervals, in a fixed number of bytes.
struct PlotRing: Sendable {
    /// The length of an interval in seconds.
    let step: Int64
    let capacity: Int
    private var held: [Int32]
    /// For each series and each quantile, its values in tenths of a millisecond; -1 for an interval without a value.
    private var tenths: [[Int32]]
    /// The number of the last interval since 1970; `nil` before the first interval.
    private var last: Int64?
    private(set) var count = 0

    static var columns: Int { PlotTimes.Series.allCases.count * PlotTimes.quantiles.count }

    init(step: Int64, capacity: Int) {
        (self.step, self.capacity) = (step, capacity)
        held = [Int32](repeating: 0, count: capacity)
        tenths = [[Int32]](repeating: [Int32](repeating: -1, count: capacity), count: Self.columns)
    }

    /// Adds the values of the interval that contains the time `seconds`. Skipped intervals are filled with missing
    /// values. A time before the last interval is ignored, because the clock was set back.
    mutating func add(held: Int, _ times: PlotTimes, at seconds: Int64) {
        let interval = max(0, seconds) / step
        if let last {
            guard interval > last else { return }
            if interval - last > Int64(capacity) {
                count = 0
            } else {
                for missing in (last + 1)..<interval { put(held: 0, nil, missing) }
            }
        }
        put(held: held, times, interval)
    }

    private mutating func put(held: Int, _ times: PlotTimes?, _ interval: Int64) {
        let place = place(of: interval)
        self.held[place] = Int32(clamping: held)
        var column = 0
        for series in PlotTimes.Series.allCases {
            for quantile in PlotTimes.quantiles {
                let value = times?[series].quantile(quantile)
                tenths[column][place] = value.map { Int32(clamping: $0.nanoseconds / 100_000) } ?? -1
                column += 1
            }
        }
        last = interval
        count = min(count + 1, capacity)
    }

    private func place(of interval: Int64) -> Int { Int(interval % Int64(capacity)) }

    /// The start of the last interval, in Unix seconds.
    var until: Int64 { (last ?? 0) * step }
    var from: Int64 { ((last ?? 0) - Int64(max(0, count - 1))) * step }

    /// Calls the closure with the index of each interval, oldest first.
    private func forEachPlace(_ body: (Int) -> Void) {
        guard let last else { return }
        for interval in (last - Int64(count) + 1)..<(last + 1) { body(place(of: interval)) }
    }

    /// Writes the member `series` of the answer for the plots.
    func write(into out: inout [UInt8]) {
        out += "{\"held\":[".utf8
        forEachPlace { out += "\(held[$0]),".utf8 }
        Self.endList(&out)
        var column = 0
        for series in PlotTimes.Series.allCases {
            out += ",\"\(series.name)\":{".utf8
            for (index, name) in PlotTimes.quantileNames.enumerated() {
                out += "\(index == 0 ? "" : ",")\"\(name)\":[".utf8
                forEachPlace { place in
                    let value = tenths[column][place]
                    if value < 0 {
                        out += "null,".utf8
                    } else {
                        out += (value % 10 == 0 ? "\(value / 10)," : "\(value / 10).\(value % 10),").utf8
                    }
                }
                Self.endList(&out)
                column += 1
            }
            out.append(UInt8(ascii: "}"))
        }
        out.append(UInt8(ascii: "}"))
    }

    private static func endList(_ out: inout [UInt8]) {
        if out.last == UInt8(ascii: ",") { out.removeLast() }
        out.append(UInt8(ascii: "]"))
    }
}
