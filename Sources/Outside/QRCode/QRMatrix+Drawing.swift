/// Draws a QR code as text and as an SVG picture.
extension QRMatrix {
    /// The lines of a QR code that is drawn with half-block characters: each character shows two modules, one above the
    /// other. The light modules are drawn, because most terminals have a dark background.
    package var lines: [String] {
        stride(from: places.lowerBound, to: places.upperBound, by: 2).map { row in
            places.map { column in
                // A row below the last one has no modules, and stays dark like the background.
                let (upper, lower) = (!isDark(column, row), places.contains(row + 1) && !isDark(column, row + 1))
                return upper ? (lower ? "█" : "▀") : (lower ? "▄" : " ")
            }.joined()
        }
    }

    /// The lines of a QR code for terminals with colours. The drawing sets its own colours, so it can be read on a dark
    /// and on a light background.
    package var colouredLines: [String] { lines.map { "\u{1B}[40;37;1m\($0)\u{1B}[0m" } }

    /// A picture in which each module is one unit wide.
    package var svg: String {
        let size = places.count
        var path = ""
        for row in 0..<width {
            var column = 0
            while column < width {
                guard isDark(column, row) else {
                    column += 1
                    continue
                }
                let start = column
                while isDark(column, row) { column += 1 }
                path += "M\(start + Self.quietZone) \(row + Self.quietZone)h\(column - start)v1h-\(column - start)z"
            }
        }
        return """
            <?xml version="1.0" encoding="UTF-8"?>
            <svg xmlns="http://www.w3.org/2000/svg" width="\(size * 8)" height="\(size * 8)" viewBox="0 0 \(size) \(size)" \
            shape-rendering="crispEdges"><rect width="100%" height="100%" fill="#fff"/><path d="\(path)" fill="#000"/></svg>

            """
    }
}
