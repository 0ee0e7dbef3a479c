//! The reservation service: holds, checkout and purchases that never oversell and never charge twice.
